"""A gate that waits while the call is stopped: never the gate's own failure."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    CancelToken,
    Limits,
    Pipeline,
    Stage,
    policy,
)
from capgate.approvals import MemoryApprovals
from capgate.idempotency import MemoryIdempotency

DANA, MIA = Actor("u_dana"), Actor("u_mia")


class Gate:
    """Something that never answers; it says when it was asked."""

    def __init__(self) -> None:
        self.asked = anyio.Event()

    async def __call__(self, *args, **named):
        self.asked.set()
        await anyio.sleep_forever()


class HangingKeys(MemoryIdempotency):
    __slots__ = ("begin",)


class HangingApprovals(MemoryApprovals):
    __slots__ = ("create",)


class Custom(Stage):
    name = "custom"

    def __init__(self, gate) -> None:
        self.gate = gate

    async def run(self, invocation):
        await self.gate()


def hanging(kind, gate):
    """Settings of an engine, fields of a capability and options of a call that meet the gate."""
    keys, approvals = HangingKeys(), HangingApprovals()
    keys.begin = approvals.create = gate
    rule = ApprovalRule()
    late = {"policies": [policy("p", phases={"execution"})(gate)]}
    return {
        "authenticator": ({"authenticate": gate}, {}, {"actor": None, "credentials": "c"}),
        "access": ({}, {"access": gate}, {}),
        "authorizer": ({"authorize": gate}, {}, {}),
        "discovery": ({"policies": [policy("p", phases={"discovery"})(gate)]}, {}, {}),
        "invocation": ({"policies": [policy("p")(gate)]}, {}, {}),
        "execution": (late, {}, {}),
        "custom": ({"pipeline": Pipeline.default().before("policy", Custom(gate))}, {}, {}),
        "keys": ({"idempotency": keys}, {}, {"idempotency_key": "k"}),
        "approvals": ({"approvals": approvals}, {"approval": rule}, {}),
        "inline": ({"approvals": ApprovalConfig(handler=gate)}, {"approval": rule}, {}),
    }[kind]


KINDS = [
    "authenticator",
    "access",
    "authorizer",
    "discovery",
    "invocation",
    "execution",
    "custom",
    "keys",
    "approvals",
    "inline",
]


def build(world, kind):
    gate = Gate()
    settings, fields, options = hanging(kind, gate)
    return world(limits=Limits(policy_timeout=30), **settings).add(**fields), gate, options


@pytest.mark.parametrize("kind", KINDS)
async def test_a_token_ends_the_wait(world, kind):
    """CANCELLED at once: the call does not wait for the gate (reference B 157, 158)."""
    built, gate, options = build(world, kind)
    token, outcomes = CancelToken(), []

    async def call():
        outcomes.append(await built.call(cancel=token, **options))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await gate.asked.wait()
        token.cancel()
    (outcome,) = outcomes
    assert (outcome.status, outcome.error.code, outcome.effect) == (
        "cancelled",
        "CANCELLED",
        "none",
    )
    assert built.told()[-1] == "cancelled"
    assert built.ran == []


@pytest.mark.parametrize("kind", KINDS)
async def test_the_calls_deadline_ends_the_wait(world, kind):
    """TIMEOUT: `timeout=` bounds all stages (reference B 155, 156)."""
    built, _, options = build(world, kind)
    outcome = await built.call(timeout=0.02, **options)
    assert (outcome.status, outcome.error.code, outcome.effect) == ("cancelled", "TIMEOUT", "none")
    assert built.ran == []


@pytest.mark.parametrize("kind", KINDS)
async def test_the_callers_own_cancellation_goes_on(world, kind):
    """Native: one terminal event, and the task is cancelled, not refused."""
    built, gate, options = build(world, kind)

    async def call():
        await built.call(**options)
        raise AssertionError

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await gate.asked.wait()
        group.cancel_scope.cancel()
    assert built.told()[-1] == "cancelled"
    assert built.last()["native"] is True
    assert built.ran == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "discovery"])
async def test_a_token_that_fired_before_runs_nothing(world, kind):
    """The handler is never entered, whichever gate there is (reference B 160; A 174)."""
    built, _, options = build(world, kind)
    token = CancelToken()
    token.cancel()
    outcome = await built.call(cancel=token, **options)
    assert outcome.error.code == "CANCELLED"
    assert built.ran == []


@pytest.mark.parametrize("answer", [True, False])
async def test_a_rule_that_answers_after_the_stop_does_not_run_it(world, answer):
    """SI-7: a yes that comes too late opens nothing (reference B 159)."""
    token = CancelToken()

    def rule(request):
        token.cancel()
        return answer

    built = world().add(access=rule)
    outcome = await built.call(cancel=token)
    assert outcome.status in {"cancelled", "failed"}
    assert built.ran == []
