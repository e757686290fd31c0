"""The truth table's row `both`: the first is the outcome; a deadline fires at its instant."""

from __future__ import annotations

import anyio
import pytest

from capgate import CancelToken

CANCELLED = ("Cancelled", "CANCELLED", "cancellation", False)
TIMED_OUT = ("Cancelled", "TIMEOUT", "timeout", True)
FAILED = ("Failed", "EXECUTION_FAILED", "execution", False)
ENDED = ("requested", "started", "cancelled")

OF_ATTEMPT = pytest.param({"timeout": 0.02}, {}, id="attempt")
OF_CALL = pytest.param({}, {"timeout": 0.02}, id="call")
pytestmark = pytest.mark.parametrize(("declared", "called"), [OF_ATTEMPT, OF_CALL])


async def test_token_before_the_deadline(rig, block, declared, called):
    """The token fires first, the deadline passes during cleanup: CANCELLED."""
    token = CancelToken()

    async def body(ctx):
        token.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            block(0.03)

    rig.job(body, **declared)
    assert rig.told(await rig.attempt(cancel=token, **called)) == (*CANCELLED, "unknown")
    rig.saw(*ENDED, code="CANCELLED", native=False)


async def test_deadline_before_the_token(rig, declared, called):
    """The deadline fires first, the token during cleanup: TIMEOUT."""
    token = CancelToken()

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        finally:
            token.cancel()

    rig.job(body, **declared)
    assert rig.told(await rig.attempt(cancel=token, **called)) == (*TIMED_OUT, "unknown")
    rig.saw(*ENDED, code="TIMEOUT", native=False)


async def test_deadline_then_token_swallowed(rig, declared, called):
    """The deadline fires first, then the token, then a value is returned: Completed, late."""
    token = CancelToken()

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            token.cancel()
            return "done"

    rig.job(body, **declared)
    outcome = await rig.attempt(cancel=token, **called)
    assert rig.told(outcome) == ("Completed", "done", True, "done")
    rig.saw("requested", "started", "completed", late=True)


async def test_token_after_a_blocked_deadline_interrupts_as_timeout(rig, block, declared, called):
    """The loop was blocked past the deadline and the token is cancelled only then: TIMEOUT."""
    token = CancelToken()

    async def body(ctx):
        block(0.03)
        token.cancel()
        await anyio.sleep_forever()

    rig.job(body, **declared)
    assert rig.told(await rig.attempt(cancel=token, **called)) == (*TIMED_OUT, "unknown")
    rig.saw(*ENDED, code="TIMEOUT", native=False)


async def test_token_after_a_blocked_deadline_keeps_the_value(rig, block, declared, called):
    """Blocked past the deadline, then the token, then a value: Completed, late."""
    token = CancelToken()

    async def body(ctx):
        block(0.03)
        token.cancel()
        return "done"

    rig.job(body, **declared)
    outcome = await rig.attempt(cancel=token, **called)
    assert rig.told(outcome) == ("Completed", "done", True, "done")
    rig.saw("requested", "started", "completed", late=True)


async def test_token_before_a_blocked_deadline_is_cancelled(rig, block, declared, called):
    """The token, then blocked past the deadline, then a value: the token was first, CANCELLED."""
    token = CancelToken()

    async def body(ctx):
        token.cancel()
        block(0.03)
        return "done"

    rig.job(body, **declared)
    assert rig.told(await rig.attempt(cancel=token, **called)) == (*CANCELLED, "done")
    rig.saw(*ENDED, code="CANCELLED", effect="done", native=False)


async def test_blocked_deadline_alone_with_a_quiet_token(rig, block, declared, called):
    """A token that never fires leaves a value after a blocked deadline late and completed."""

    async def body(ctx):
        block(0.03)
        return "done"

    rig.job(body, **declared)
    outcome = await rig.attempt(cancel=CancelToken(), **called)
    assert rig.told(outcome) == ("Completed", "done", True, "done")
    rig.saw("requested", "started", "completed", late=True)


async def test_failure_after_a_blocked_deadline_with_a_quiet_token(rig, block, declared, called):
    """A token that never fires leaves a failure after a blocked deadline a failure."""

    async def body(ctx):
        block(0.03)
        raise ValueError("own")

    rig.job(body, **declared)
    assert rig.told(await rig.attempt(cancel=CancelToken(), **called)) == (*FAILED, "unknown")
    rig.saw("requested", "started", "failed", code="EXECUTION_FAILED")
