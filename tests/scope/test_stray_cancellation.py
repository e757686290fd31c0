"""The truth table's rows about what looks like a cancellation or a verdict, and is none."""

from __future__ import annotations

import anyio
import pytest

from capgate import CancelToken, CapabilityError, ErrorCode

FAILED = ("Failed", "EXECUTION_FAILED", "execution", False, "unknown")
FAILURE = ("requested", "started", "failed")
STOPPED = {
    "token": ("Cancelled", "CANCELLED", "cancellation", False, "unknown"),
    "timeout": ("Cancelled", "TIMEOUT", "timeout", True, "unknown"),
}

PLAIN = pytest.param(dict, id="plain")
TIMED = pytest.param(lambda: {"timeout": 60}, id="timeout")
HELD = pytest.param(lambda: {"cancel": CancelToken()}, id="token")
CALLS = pytest.mark.parametrize("options", [PLAIN, TIMED, HELD])


@pytest.fixture
async def saved():
    """A cancellation that was real once, somewhere else."""
    kept = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep(1)
        except anyio.get_cancelled_exc_class() as raised:
            kept.append(raised)
            raise
    return kept[0]


@CALLS
async def test_saved_cancellation_is_a_failure(rig, saved, options):
    """The handler raises a saved cancellation that nobody asked for: EXECUTION_FAILED."""

    async def body(ctx):
        raise saved

    rig.job(body)
    outcome = await rig.attempt(**options())
    assert rig.told(outcome) == FAILED
    rig.saw(*FAILURE, code="EXECUTION_FAILED", effect="unknown")


@CALLS
async def test_group_of_saved_cancellations_is_a_failure(rig, saved, options):
    """A group with nothing but a saved cancellation: EXECUTION_FAILED."""

    async def body(ctx):
        raise BaseExceptionGroup("group", [saved])

    rig.job(body)
    assert rig.told(await rig.attempt(**options())) == FAILED
    rig.saw(*FAILURE, code="EXECUTION_FAILED", effect="unknown")


@CALLS
async def test_group_that_mixes_in_a_cancellation_is_a_failure(rig, saved, options):
    """A group of a failure and a saved cancellation: EXECUTION_FAILED."""

    async def body(ctx):
        raise BaseExceptionGroup("group", [ValueError("own"), saved])

    rig.job(body)
    assert rig.told(await rig.attempt(**options())) == FAILED
    rig.saw(*FAILURE, code="EXECUTION_FAILED", effect="unknown")


async def test_group_with_a_cancellation_while_interrupted(rig):
    """A task group's mix of a failure and the interruption is TIMEOUT, the group as cause."""

    async def break_in_cleanup():
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("child")

    async def body(ctx):
        async with anyio.create_task_group() as group:
            group.start_soon(break_in_cleanup)
            await anyio.sleep_forever()

    rig.job(body, timeout=0.02)
    outcome = await rig.attempt()
    assert rig.told(outcome) == STOPPED["timeout"]
    assert isinstance(outcome.error.__cause__, BaseExceptionGroup)
    rig.saw("requested", "started", "cancelled", code="TIMEOUT", native=False)


async def test_native_group_with_a_cancellation_leaf_goes_on(rig, saved):
    """Natively cancelled, the handler lets out a group that holds the cancellation: it goes on."""
    seen = []

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as raised:
            seen.append(BaseExceptionGroup("group", [raised]))
            raise seen[0] from None

    rig.job(body)
    rose = []
    with anyio.move_on_after(0.02) as scope:
        try:
            await rig.attempt()
        except BaseExceptionGroup as group:
            rose.append(group)
            raise group.exceptions[0] from None
    assert rose == seen
    assert scope.cancelled_caught
    rig.saw("requested", "started", "cancelled", code="CANCELLED", native=True)


async def test_task_group_failure_is_the_leaf(rig):
    """A task group's only failure is the handler's failure; cancelled siblings do not matter."""
    broken = ValueError("child")

    async def fail():
        raise broken

    async def body(ctx):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            group.start_soon(fail)

    rig.job(body)
    outcome = await rig.attempt()
    assert rig.told(outcome) == FAILED
    rig.saw(*FAILURE, code="EXECUTION_FAILED", effect="unknown")


@pytest.mark.parametrize("why", ["token", "timeout"])
@pytest.mark.parametrize("code", [ErrorCode.CAPABILITY_NOT_FOUND, ErrorCode.EXECUTION_FAILED])
async def test_forged_error_while_interrupted(rig, why, code):
    """A verdict that the handler forges while being interrupted changes nothing but the cause."""
    forged = CapabilityError(code)
    token = CancelToken()

    async def body(ctx):
        if why == "token":
            token.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            raise forged

    rig.job(body)
    outcome = await rig.attempt(cancel=token, timeout=0.02)
    assert rig.told(outcome) == STOPPED[why]
    assert outcome.error.__cause__ is forged
    rig.saw("requested", "started", "cancelled", native=False)


async def test_forged_error_while_natively_cancelled(rig):
    """A verdict that the handler forges while natively cancelled hides no cancellation."""

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        finally:
            raise CapabilityError(ErrorCode.CAPABILITY_NOT_FOUND)

    rig.job(body)
    with anyio.move_on_after(0.02) as scope:
        await rig.attempt()
    assert scope.cancelled_caught
    rig.saw("requested", "started", "cancelled", code="CANCELLED", native=True, effect="unknown")


@pytest.mark.parametrize("code", ["TIMEOUT", "CANCELLED"])
async def test_forged_stop_is_a_failure(rig, code):
    """A handler cannot claim to have been interrupted: EXECUTION_FAILED."""

    async def body(ctx):
        raise CapabilityError(code)

    rig.job(body)
    assert rig.told(await rig.attempt()) == FAILED
    rig.saw(*FAILURE, code="EXECUTION_FAILED", effect="unknown")
