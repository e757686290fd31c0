"""Seams between stops, places, retries and dependencies, each found once the hard way."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from capgate import CancelToken, CapabilityError, DomainError, Effect, Limits, Retry
from capgate.audit import AuditConfig
from capgate.pipeline.slots import Places, Slots


class Transient(DomainError):
    """Worth another try."""

    retryable = True


class Harmless(Transient):
    """Raised before anything was done."""

    effect = Effect.NONE


async def test_no_attempt_runs_without_its_evidence(make_rig):
    """A strict audit that could not write `started` ends the call, retries or not."""

    def sink(event):
        if event.type == "capability.started":
            raise OSError("full")

    rig = make_rig(audit=AuditConfig(sink, strict=True))
    rig.job(rig.done, idempotent=True, retry=Retry(attempts=3))
    outcome = await rig.attempt()
    assert (outcome.error.code, outcome.effect) == ("AUDIT_UNAVAILABLE", "none")
    assert rig.entered == 0


async def test_a_harmless_attempt_says_nothing_of_the_next(rig):
    """An attempt interrupted after a harmless one is in doubt."""

    async def body(ctx):
        if ctx.attempt_number == 1:
            raise Harmless
        await anyio.sleep_forever()

    rig.job(body, idempotent=True, retry=Retry(attempts=2), timeout=0.02)
    outcome = await rig.attempt()
    assert (outcome.error.code, outcome.effect) == ("TIMEOUT", "unknown")


async def test_a_stop_between_harmless_attempts_leaves_no_doubt(make_rig):
    """`timeout=` fires in back-off after a harmless attempt: effect none, one attempt."""
    rig = make_rig(jitter=lambda: 1.0)

    async def body(ctx):
        raise Harmless

    rig.job(body, idempotent=True, retry=Retry(attempts=2, backoff=5))
    outcome = await rig.attempt(timeout=0.02)
    assert (outcome.error.code, outcome.effect) == ("TIMEOUT", "none")
    rig.saw("requested", "started", "cancelled", attempts=1, effect="none")


@pytest.mark.parametrize("where", ["factory", "entry"])
async def test_the_making_of_dependencies_is_bounded(make_rig, where):
    """A factory, or the entry of what it made, that hangs is given up: the call fails closed."""

    @asynccontextmanager
    async def entry(invocation):
        await anyio.sleep_forever()
        yield "deps"

    async def factory(invocation):
        await anyio.sleep_forever()

    made = entry if where == "entry" else factory
    rig = make_rig(deps=made, limits=Limits(policy_timeout=0.02), on_internal_error=lambda _: None)
    rig.job(rig.done)
    outcome = await rig.attempt()
    assert (outcome.error.code, outcome.effect) == ("INTERNAL_ERROR", "none")
    rig.saw("requested", "failed", entered=0)


@pytest.mark.parametrize("why", ["token", "timeout"])
async def test_a_stop_reaches_the_entry_of_dependencies(make_rig, why):
    """A token or `timeout=` interrupts the entry of a context manager too; it is not entered."""
    token, left = CancelToken(), []

    @asynccontextmanager
    async def factory(invocation):
        if why == "token":
            token.cancel()
        try:
            await anyio.sleep_forever()
            yield "deps"
        finally:
            left.append(True)

    rig = make_rig(deps=factory)
    rig.job(rig.done)
    outcome = await rig.attempt(cancel=token, timeout=0.02)
    assert outcome.error.code == ("CANCELLED" if why == "token" else "TIMEOUT")
    assert left == [True]
    rig.saw("requested", "cancelled", entered=0, effect="none", attempts=0)


async def test_dependencies_may_hold_a_scope_open(make_rig):
    """A context manager that holds a task group open across the call is left in order."""
    order = []

    @asynccontextmanager
    async def factory(invocation):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            yield "deps"
            group.cancel_scope.cancel()
        order.append("left")

    rig = make_rig(deps=factory)
    rig.job(rig.forever)
    assert (await rig.attempt(timeout=0.02)).error.code == "TIMEOUT"
    assert order == ["left"]


async def test_a_place_that_came_too_late_is_given_back(rig, block):
    """A place that was granted while the loop was blocked past the wait is not lost."""
    slots = Slots(1, 10)
    places = Places(None, slots, 0.02)
    await slots.acquire()

    class Taking:
        parent_execution_id = None
        halted = False
        waiting = denial = None
        places = ()

    call = Taking()
    async with anyio.create_task_group() as group:
        group.start_soon(take, places, call)
        await anyio.wait_all_tasks_blocked()
        slots.release()
        block(0.05)
    for release in call.places:
        release()
    assert (slots.used, slots.waiting) == (0, 0)


async def take(places, call):
    with pytest.raises(CapabilityError, match="TIMEOUT"):
        await places.take(call)
