"""Settle callbacks: what a stage leaves to be done once the outcome is known."""

from __future__ import annotations

import anyio
import pytest
import structlog.testing

from capgate import (
    Actor,
    ApprovalRule,
    CancelToken,
    Engine,
    Limits,
    Pipeline,
    Stage,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")


class Leaving(Stage):
    """Registers callbacks at each call."""

    def __init__(self, *callbacks, name="leaving"):
        self.callbacks = callbacks
        self.name = name

    def run(self, invocation):
        for callback in self.callbacks:
            invocation.on_settle(callback)


def world(*stages, handler=None, patience=30.0, **fields):
    """Build an engine whose stages leave callbacks, with the capability `cap`."""
    pipeline = Pipeline.default()
    for stage in stages:
        pipeline = pipeline.before("policy", stage)
    audit = MemoryAudit()
    engine = Engine(
        "test",
        pipeline=pipeline,
        audit=audit,
        on_internal_error=lambda _: None,
        limits=Limits(policy_timeout=patience),
    )

    async def give() -> int:
        """Give one."""
        return 1

    engine.capability("cap", **fields)(handler or give)
    return engine, audit


async def fail() -> int:
    """Fail."""
    raise ValueError("secret")


async def wait() -> int:
    """Wait."""
    await anyio.sleep_forever()


async def test_callbacks_run_in_reverse_order():
    """Callbacks run last first, over all stages, sync and async alike, after the terminal event."""
    order = []

    async def later():
        await anyio.lowlevel.checkpoint()
        order.append(3)

    engine, audit = world(
        Leaving(lambda: order.append(1), lambda: order.append(2), name="a"),
        Leaving(later, lambda: order.append([e.type for e in audit.events][-1]), name="b"),
    )
    assert await engine.invoke("cap", actor=DANA) == 1
    assert order == ["capability.completed", 3, 2, 1]


@pytest.mark.parametrize(
    ("handler", "fields", "status"),
    [
        (None, {}, "completed"),
        (fail, {}, "failed"),
        (wait, {"timeout": 0.001}, "cancelled"),
        (None, {"approval": ApprovalRule()}, "approval-required"),
        (None, {"access": lambda request: False}, "failed"),
    ],
)
async def test_callbacks_run_however_the_call_ends(handler, fields, status):
    """A callback runs exactly once for every outcome."""
    ran = []
    pipeline_stage = Leaving(lambda: ran.append(1))
    pipeline = Pipeline.default().after("discovery", pipeline_stage)
    engine = Engine("test", pipeline=pipeline, on_internal_error=lambda _: None)

    async def give() -> int:
        """Give one."""
        return 1

    engine.capability("cap", **fields)(handler or give)
    assert (await engine.attempt("cap", actor=DANA)).status == status
    assert ran == [1]


async def test_a_callback_runs_when_a_later_stage_refuses():
    """A stage that acquired something gets its callback though a later stage refused."""
    ran = []

    class Refusing(Stage):
        name = "refusing"

        def run(self, invocation):
            raise ValueError

    engine, _ = world(Leaving(lambda: ran.append(1)), Refusing())
    assert (await engine.attempt("cap", actor=DANA)).error.code == "POLICY_FAILED"
    assert ran == [1]


async def test_callbacks_are_shielded_from_the_callers_cancellation():
    """Under a native cancellation a callback still runs to its end, awaits included."""
    order = []

    async def settle():
        await anyio.lowlevel.checkpoint()
        order.append("settled")

    engine, audit = world(Leaving(settle), handler=wait)
    with anyio.move_on_after(0.001) as scope:
        await engine.attempt("cap", actor=DANA)
    assert scope.cancelled_caught
    assert order == ["settled"]
    assert audit.events[-1].data["native"] is True


@pytest.mark.parametrize("handler", [None, fail])
async def test_a_cancellation_that_arrives_while_settling_goes_on(handler):
    """The event keeps what the call became; then the caller's own cancellation goes on."""
    order = []

    async def settle():
        scope.cancel()
        await anyio.lowlevel.checkpoint()
        order.append("settled")

    engine, audit = world(Leaving(settle), handler=handler)
    with anyio.CancelScope() as scope:
        await engine.attempt("cap", actor=DANA)
        await anyio.lowlevel.checkpoint()
        order.append("went on")
    assert (scope.cancelled_caught, order) == (True, ["settled"])
    assert audit.events[-1].type == ("capability.failed" if handler else "capability.completed")


async def test_callbacks_run_after_the_token_fired():
    """A call that its token stopped settles too."""
    ran, token = [], CancelToken()

    async def fire() -> int:
        """Fire the token of this very call."""
        token.cancel()
        await anyio.sleep_forever()

    engine, _ = world(Leaving(lambda: ran.append(1)), handler=fire)
    assert (await engine.attempt("cap", actor=DANA, cancel=token)).status == "cancelled"
    assert ran == [1]


async def stray():
    """Return a cancellation that was delivered to somebody else."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            return cancelled


@pytest.mark.parametrize("kind", ["exception", "stray"])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("handler", [None, fail])
async def test_a_callback_that_raises_changes_nothing(kind, asynchronous, handler):
    """What a callback raises is reported; the outcome stays and the other callbacks run."""
    error = ValueError("oops") if kind == "exception" else await stray()
    ran = []

    def breaks():
        raise error

    async def breaks_later():
        raise error

    last = breaks_later if asynchronous else breaks
    engine, _ = world(Leaving(lambda: ran.append(1), last), handler=handler)
    with structlog.testing.capture_logs() as logs:
        outcome = await engine.attempt("cap", actor=DANA)
    assert (outcome.status, ran) == ("failed" if handler else "completed", [1])
    assert [entry["event"] for entry in logs] == ["settle_failed"]


async def test_a_callback_that_hangs_is_bounded():
    """A callback that never ends is given up; the outcome stays and the others run (SI-12)."""
    ran = []
    engine, _ = world(Leaving(lambda: ran.append(1), anyio.sleep_forever), patience=0.2)
    with structlog.testing.capture_logs() as logs:
        assert await engine.invoke("cap", actor=DANA) == 1
    assert ran == [1]
    assert [entry["event"] for entry in logs] == ["settle_failed"]


@pytest.mark.parametrize("junk", [None, 3, "release", []])
async def test_only_a_callable_can_be_left(junk):
    """`on_settle` refuses what it could not call, as a fault of the stage."""
    engine, _ = world(Leaving(junk))
    outcome = await engine.attempt("cap", actor=DANA)
    assert outcome.error.code == "POLICY_FAILED"
    assert isinstance(outcome.error.__cause__, TypeError)


async def test_explaining_settles_too():
    """`explain` runs the callbacks of the stages it ran: what they acquired is released."""
    held = []

    class Holding(Stage):
        name = "holding"

        def run(self, invocation):
            held.append(1)
            invocation.on_settle(held.clear)

    engine, _ = world(Holding())
    assert (await engine.explain("cap", actor=DANA)).verdict == "would-execute"
    assert held == []
