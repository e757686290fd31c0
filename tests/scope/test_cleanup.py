"""The truth table's row about cleanup: the first cause stays, an overrun is told."""

from __future__ import annotations

import anyio
import pytest

from capgate import CancelToken, Limits

TIMED_OUT = ("Cancelled", "TIMEOUT", "timeout", True)
CANCELLED = ("Cancelled", "CANCELLED", "cancellation", False)
ENDED = ("requested", "started", "cancelled")

OF_ATTEMPT = pytest.param({"timeout": 0.02}, {}, id="attempt")
OF_CALL = pytest.param({}, {"timeout": 0.02}, id="call")
BOTH_KINDS = pytest.mark.parametrize(("declared", "called"), [OF_ATTEMPT, OF_CALL])


@pytest.fixture
async def rig(make_rig):
    """A rig with a short grace."""
    return make_rig(limits=Limits(cleanup_grace=0.05))


def overruns(log):
    return [entry for entry in log if entry["event"] == "cleanup_overrun"]


def cleans_up_for(seconds):
    async def body(ctx):
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(seconds)

    return body


@BOTH_KINDS
async def test_shielded_cleanup_runs_to_its_end(make_rig, log, declared, called):
    """A short shielded cleanup is waited for; the first cause is the outcome, no overrun."""
    rig = make_rig()
    rig.job(cleans_up_for(0.001), **declared)
    assert rig.told(await rig.attempt(**called)) == (*TIMED_OUT, "unknown")
    rig.saw(*ENDED, code="TIMEOUT", native=False, effect="unknown")
    assert overruns(log) == []


@BOTH_KINDS
async def test_long_cleanup_is_an_overrun(rig, log, declared, called):
    """Past the grace period the overrun is logged and audited; the call ends with the handler."""
    rig.job(cleans_up_for(0.08), **declared)
    assert rig.told(await rig.attempt(**called)) == (*TIMED_OUT, "unknown")
    rig.saw(*ENDED, code="TIMEOUT", native=False, effect="unknown", cleanup_overrun=True)
    (entry,) = overruns(log)
    assert entry["log_level"] == "warning"
    assert entry["grace_seconds"] == 0.05


async def test_long_cleanup_after_the_token_is_an_overrun(rig, log):
    """The token's interruption has the same grace."""
    token = CancelToken()

    async def body(ctx):
        token.cancel()
        await cleans_up_for(0.08)(ctx)

    rig.job(body)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "unknown")
    rig.saw(*ENDED, code="CANCELLED", native=False, effect="unknown", cleanup_overrun=True)
    assert len(overruns(log)) == 1


@BOTH_KINDS
async def test_swallowing_and_going_on_is_an_overrun(rig, log, declared, called):
    """A handler that swallows the interruption and goes on: an overrun, and its value is late."""

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.08)
        return "done"

    rig.job(body, **declared)
    assert rig.told(await rig.attempt(**called)) == ("Completed", "done", True, "done")
    rig.saw("requested", "started", "completed", late=True, cleanup_overrun=True)
    assert len(overruns(log)) == 1


async def test_overrun_of_a_shield_that_fails(rig, log):
    """A long cleanup that then fails: TIMEOUT, the failure as cause, the overrun told."""
    broken = ValueError("cleanup broke")

    async def body(ctx):
        try:
            await cleans_up_for(0.08)(ctx)
        finally:
            raise broken

    rig.job(body, timeout=0.02)
    outcome = await rig.attempt()
    assert rig.told(outcome) == (*TIMED_OUT, "unknown")
    assert outcome.error.__cause__ is broken
    rig.saw(*ENDED, code="TIMEOUT", cleanup_overrun=True)


async def test_native_overrun_goes_on_when_the_handler_ends(rig):
    """A native cancellation waits for a shielded cleanup, then goes on."""
    rig.job(cleans_up_for(0.08))
    with anyio.move_on_after(0.02) as scope:
        await rig.attempt()
    assert scope.cancelled_caught
    rig.saw(*ENDED, code="CANCELLED", native=True, effect="unknown", cleanup_overrun=None)


async def test_closing_lists_a_call_that_cleans_up_as_unknown(rig):
    """While an interrupted handler outlasts every grace, `aclose` lists its call as unknown."""
    cleaned = anyio.Event()

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await cleaned.wait()

    rig.job(body)
    async with anyio.create_task_group() as group:
        group.start_soon(rig.attempt)
        await rig.running.wait()
        report = await rig.engine.aclose(grace=0.01)
        assert rig.trail == ["requested", "started"]
        assert report.unknown == (rig.audit.events[0].execution_id,)
        cleaned.set()
    rig.saw(*ENDED, code="CANCELLED", native=False, effect="unknown", cleanup_overrun=True)
