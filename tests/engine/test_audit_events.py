"""The audit of calls: which events, in which order, with which data, and exactly one end."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import anyio
import pytest

from capgate import (
    Actor,
    AuditConfig,
    CancelToken,
    DomainError,
    Engine,
    Forbidden,
    Retry,
    allow,
    deny,
    hide,
    policy,
)
from capgate.audit import AuditEvent, MemoryAudit

DANA = Actor("u_dana", attributes={"email": "canary-attribute"}, permissions={"canary-permission"})
BOSS = Actor("u_boss")
START = datetime(2026, 1, 1, tzinfo=UTC)
TERMINAL = {"denied", "completed", "failed", "cancelled"}


class FakeClock:
    """A clock that a test moves."""

    def __init__(self):
        self.time = START

    def now(self):
        return self.time


class SoldOutError(DomainError):
    message = "Sold out."
    retryable = True


def named(name, answer, *phases):
    @policy(name, phases=set(phases) or {"invocation"})
    def rule(request):
        if isinstance(answer, Exception):
            raise answer
        return answer

    return rule


class World:
    """An engine that notes its events, with the capability `cap`."""

    def __init__(self, handler=None, *, config=None, fields=None, **settings):
        self.audit = MemoryAudit()
        audit = AuditConfig([self.audit], **config) if config else self.audit
        self.engine = Engine(
            "test",
            audit=audit,
            on_internal_error=lambda _: None,
            jitter=lambda: 0.0,
            **{"clock": FakeClock(), **settings},
        )

        async def give(n: int = 0) -> int:
            """Give back."""
            return n

        self.engine.capability("cap", **fields or {})(handler or give)

    async def attempt(self, payload=None, *, actor=DANA, **options):
        """Call, and check what holds for the events of every call."""
        outcome = await self.engine.attempt("cap", payload or {}, actor=actor, **options)
        check_ends(self.audit.events)
        return outcome

    @property
    def types(self):
        return [event.type.split(".")[1] for event in self.audit.events]

    @property
    def last(self):
        return self.audit.events[-1]


def is_terminal(event):
    kind = event.type.split(".")[1]
    return kind in TERMINAL or (kind == "approval_requested" and event.data["suspended"])


def check_ends(events):
    """Every execution starts with `requested` and has exactly one terminal event, its last."""
    executions = {event.execution_id for event in events} - {None}
    for execution in executions:
        own = [event for event in events if event.execution_id == execution]
        assert own[0].type == "capability.requested"
        assert [is_terminal(event) for event in own] == [False] * (len(own) - 1) + [True]


async def test_a_success_is_requested_started_completed():
    """A completed call leaves three events with one envelope."""
    world = World()
    outcome = await world.attempt(correlation_id="cor_1")
    assert world.types == ["requested", "started", "completed"]
    for event in world.audit.events:
        assert isinstance(event, AuditEvent)
        assert (event.surface, event.capability_id) == ("direct", "cap")
        assert (event.execution_id, event.correlation_id) == (outcome.execution_id, "cor_1")
        assert dict(event.actor) == {"id": "u_dana", "kind": "user"}
        assert (event.timestamp, event.parent_execution_id) == (START, None)
        assert event.input_hash is None


async def test_the_data_of_a_success():
    """`requested`, `started` and `completed` say what happened, never with what."""
    world = World(fields={"side_effect": "read", "risk": "low"})
    await world.attempt()
    requested, started, completed = (event.data for event in world.audit.events)
    assert dict(requested) == {"side_effect": "read", "risk": "low"}
    assert dict(started) == {"attempt": 1}
    assert (completed["attempts"], completed["late"]) == (1, False)
    assert completed["duration_ms"] >= 0
    assert tuple(completed["policy_decisions"]) == ()


async def test_an_unknown_id_leaves_evidence():
    """A request for an unknown id is `requested` without facts, then `denied`."""
    world = World()
    await world.engine.attempt("nope", {"n": 1}, actor=DANA)
    assert world.types == ["requested", "denied"]
    requested, denied = world.audit.events
    assert (requested.capability_id, dict(requested.data)) == ("nope", {})
    assert (denied.data["reason"], denied.data["public_code"]) == (
        "unknown",
        "CAPABILITY_NOT_FOUND",
    )


DENIED = [
    ({"surface": "mcp"}, {}, "not-exposed", "CAPABILITY_NOT_FOUND"),
    ({}, {"policies": [named("p", hide(), "discovery")]}, "hidden", "CAPABILITY_NOT_FOUND"),
    ({}, {"policies": [named("p", hide())]}, "hidden", "CAPABILITY_NOT_FOUND"),
    ({}, {"policies": [named("p", deny(), "discovery")]}, "policy-denied", "CAPABILITY_NOT_FOUND"),
    (
        {},
        {"policies": [named("p", OSError(), "discovery")]},
        "policy-failed",
        "CAPABILITY_NOT_FOUND",
    ),
    ({"actor": None}, {}, "unauthenticated", "UNAUTHENTICATED"),
    ({}, {"authorize": lambda request: False}, "forbidden", "FORBIDDEN"),
    ({}, {"policies": [named("p", deny())]}, "policy-denied", "POLICY_DENIED"),
    ({}, {"policies": [named("p", OSError())]}, "policy-failed", "INTERNAL_ERROR"),
    ({}, {"policies": [named("p", deny(), "execution")]}, "policy-denied", "POLICY_DENIED"),
]


@pytest.mark.parametrize(("options", "settings", "reason", "public_code"), DENIED)
async def test_a_refusal_is_denied_with_the_truth(options, settings, reason, public_code):
    """`denied` keeps the true reason beside the code that the outside saw."""
    world = World(**settings)
    await world.attempt(**options)
    assert world.types == ["requested", "denied"]
    assert (world.last.data["reason"], world.last.data["public_code"]) == (reason, public_code)


async def test_a_denial_keeps_its_own_reason_and_every_decision():
    """The audit has the deny's own reason and every policy's decision, in order."""
    world = World(
        policies=[named("a", allow(score=3)), named("b", deny("No.", reason="limit"))],
        fields={"policies": [named("c", OSError("canary"))]},
    )
    await world.attempt()
    decisions = world.last.to_dict()["data"]["policy_decisions"]
    assert [(each["policy"], each["decision"]) for each in decisions] == [
        ("a", "allow"),
        ("b", "deny"),
        ("c", "error"),
    ]
    assert {each["phase"] for each in decisions} == {"invocation"}
    assert decisions[0]["metadata"] == {"score": 3}
    assert "limit" in json.dumps(world.last.to_dict())
    assert "canary" not in json.dumps(world.last.to_dict())


async def test_the_decisions_of_every_phase_are_kept_on_success():
    """A completed call's event lists the decisions of all three phases, in order."""
    phases = ("discovery", "invocation", "execution")
    world = World(policies=[named("p", allow(), *phases)])
    await world.attempt()
    decisions = world.last.data["policy_decisions"]
    assert [each["phase"] for each in decisions] == list(phases)


@pytest.mark.parametrize(
    ("payload", "raised", "code", "stage", "reason", "executed"),
    [
        ({"n": "x"}, None, "INPUT_INVALID", "input-validation", None, False),
        ({}, ValueError("canary"), "EXECUTION_FAILED", "execution", None, False),
        ({}, SoldOutError(), "EXECUTION_FAILED", "execution", "SOLD_OUT_ERROR", False),
        ({}, Forbidden(), "FORBIDDEN", "authorization", None, False),
        ({}, None, "OUTPUT_INVALID", "output-validation", None, True),
    ],
)
async def test_a_failure_has_its_facts(payload, raised, code, stage, reason, executed):
    """`failed` has code, stage, effect, reason, retryable, attempts, duration and decisions."""

    async def handler(n: int = 0) -> int:
        """Raise, or give what is no number."""
        if raised:
            raise raised
        return "no number"

    world = World(handler)
    outcome = await world.attempt(payload)
    data = world.last.data
    assert world.types[-1] == "failed"
    assert (data["code"], data["stage"], data["reason"]) == (code, stage, reason)
    assert (data["effect"], data["retryable"]) == (outcome.effect, outcome.error.retryable)
    assert data["attempts"] == (0 if code == "INPUT_INVALID" else 1)
    assert data["executed_before_failure"] is executed
    assert data["duration_ms"] >= 0
    assert tuple(data["policy_decisions"]) == ()


async def test_each_new_attempt_is_told():
    """`retried` stands before each further attempt, with the code it follows."""
    tries = []

    async def handler() -> int:
        """Fail twice."""
        tries.append(1)
        if len(tries) < 3:
            raise SoldOutError
        return 1

    world = World(handler, fields={"retry": Retry(3), "side_effect": "read"})
    outcome = await world.attempt()
    assert world.types == ["requested", "started", "retried", "retried", "completed"]
    retried = [dict(event.data) for event in world.audit.of_type("capability.retried")]
    assert retried == [
        {"attempt": 2, "previous_error_code": "EXECUTION_FAILED"},
        {"attempt": 3, "previous_error_code": "EXECUTION_FAILED"},
    ]
    assert world.last.data["attempts"] == outcome.attempts == 3


@pytest.mark.parametrize("stop", ["timeout", "token", "before"])
async def test_a_stopped_call_is_cancelled(stop):
    """`cancelled` has the code, that it was not native, and nothing follows it."""
    token = CancelToken()

    async def handler() -> None:
        """Wait, after firing the token if asked to."""
        if stop == "token":
            token.cancel()
        await anyio.sleep_forever()

    if stop == "before":
        token.cancel()
    world = World(handler)
    options = {"timeout": 0.05} if stop == "timeout" else {"cancel": token}
    await world.attempt(**options)
    expected = ["requested", "cancelled"] if stop == "before" else ["requested", "started"]
    assert world.types[:2] == expected
    data = world.last.data
    assert data["code"] == ("TIMEOUT" if stop == "timeout" else "CANCELLED")
    assert (data["native"], data["still_running"]) == (False, False)
    assert data["duration_ms"] >= 0
