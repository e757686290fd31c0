"""The truth table's rows about deadlines: of an attempt (the capability's) and of a call."""

from __future__ import annotations

import anyio
import pytest

from capgate import Limits

TIMED_OUT = ("Cancelled", "TIMEOUT", "timeout", True)
FAILED = ("Failed", "EXECUTION_FAILED", "execution", False)
ENDED = ("requested", "started", "cancelled")
QUIET = {"code": "TIMEOUT", "native": False, "still_running": False}

# A deadline belongs to the attempt (the capability's timeout) or to the whole call (timeout=).
OF_ATTEMPT = pytest.param({"timeout": 0.02}, {}, id="attempt")
OF_CALL = pytest.param({}, {"timeout": 0.02}, id="call")
LONG = pytest.mark.parametrize(
    ("declared", "called"),
    [pytest.param({"timeout": 60}, {}, id="attempt"), pytest.param({}, {"timeout": 60}, id="call")],
)
BOTH_KINDS = pytest.mark.parametrize(("declared", "called"), [OF_ATTEMPT, OF_CALL])


@BOTH_KINDS
async def test_deadline_interrupts_the_handler(rig, declared, called):
    """A handler interrupted by its deadline: TIMEOUT, stage timeout, retryable."""
    rig.job(rig.forever, **declared)
    outcome = await rig.attempt(**called)
    assert rig.told(outcome) == (*TIMED_OUT, "unknown")
    rig.saw(*ENDED, effect="unknown", attempts=1, **QUIET)


async def test_default_deadline_interrupts_the_handler(make_rig):
    """A capability without a timeout has the engine's own for each attempt."""
    rig = make_rig(limits=Limits(timeout=0.02))
    rig.job(rig.forever)
    assert rig.told(await rig.attempt()) == (*TIMED_OUT, "unknown")
    rig.saw(*ENDED, effect="unknown", **QUIET)


async def test_deadline_interrupts_a_read_without_effect(rig):
    """A capability that only reads has no effect, even interrupted."""
    rig.job(rig.forever, side_effect="read", timeout=0.02)
    assert rig.told(await rig.attempt()) == (*TIMED_OUT, "none")
    rig.saw(*ENDED, effect="none", **QUIET)


@BOTH_KINDS
async def test_deadline_interrupts_again_in_cleanup(rig, declared, called):
    """An unshielded await in the handler's cleanup is interrupted too, on every back end."""
    reached = []

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        finally:
            reached.append("cleanup")
            await anyio.sleep(10)
            reached.append("slept")

    rig.job(body, **declared)
    assert rig.told(await rig.attempt(**called)) == (*TIMED_OUT, "unknown")
    assert reached == ["cleanup"]
    rig.saw(*ENDED, effect="unknown", **QUIET)


@BOTH_KINDS
async def test_other_failure_while_interrupted_is_the_cause(rig, declared, called):
    """A handler that raises something else while being interrupted: TIMEOUT, that as cause."""
    broken = ValueError("cleanup broke")

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        finally:
            raise broken

    rig.job(body, **declared)
    outcome = await rig.attempt(**called)
    assert rig.told(outcome) == (*TIMED_OUT, "unknown")
    assert outcome.error.__cause__ is broken
    rig.saw(*ENDED, effect="unknown", **QUIET)


@LONG
async def test_own_timeout_error_is_a_failure(rig, declared, called):
    """A handler that raises TimeoutError itself: EXECUTION_FAILED."""

    async def body(ctx):
        with anyio.fail_after(0.001):
            await anyio.sleep_forever()

    rig.job(body, **declared)
    outcome = await rig.attempt(**called)
    assert rig.told(outcome) == (*FAILED, "unknown")
    assert isinstance(outcome.error.__cause__, TimeoutError)
    rig.saw("requested", "started", "failed", code="EXECUTION_FAILED", effect="unknown")


@BOTH_KINDS
async def test_failure_after_a_blocked_deadline_is_a_failure(rig, block, declared, called):
    """A handler that raises after a deadline the loop was blocked past: EXECUTION_FAILED."""

    async def body(ctx):
        block(0.03)
        raise ValueError("own")

    rig.job(body, **declared)
    assert rig.told(await rig.attempt(**called)) == (*FAILED, "unknown")
    rig.saw("requested", "started", "failed", code="EXECUTION_FAILED", effect="unknown")


@BOTH_KINDS
async def test_value_after_a_blocked_deadline_is_late(rig, block, declared, called):
    """A handler that blocked the loop past its deadline and returned: Completed, late."""

    async def body(ctx):
        block(0.03)
        return "done"

    rig.job(body, **declared)
    assert rig.told(await rig.attempt(**called)) == ("Completed", "done", True, "done")
    rig.saw("requested", "started", "completed", late=True)


@BOTH_KINDS
async def test_value_after_a_swallowed_deadline_is_late(rig, declared, called):
    """A handler that swallowed its deadline's interruption and returned: Completed, late."""

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "done"

    rig.job(body, **declared)
    assert rig.told(await rig.attempt(**called)) == ("Completed", "done", True, "done")
    rig.saw("requested", "started", "completed", late=True)


@LONG
async def test_value_in_time_is_not_late(rig, declared, called):
    """A handler that returned before its deadline: Completed, not late."""
    rig.job(rig.done, **declared)
    assert rig.told(await rig.attempt(**called)) == ("Completed", "done", False, "done")
    rig.saw("requested", "started", "completed", late=False)
