"""The truth table's rows about `Task.cancel()`, which only asyncio has."""

from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel
import pytest

from capgate import CancelToken

ENDED = ("requested", "started", "cancelled")
NATIVE = {"code": "CANCELLED", "native": True, "still_running": False}

PLAIN = pytest.param(dict, id="plain")
TIMED = pytest.param(lambda: {"timeout": 60}, id="timeout")
HELD = pytest.param(lambda: {"cancel": CancelToken()}, id="token")
CALLS = pytest.mark.parametrize("options", [PLAIN, TIMED, HELD])


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request):
    """Only asyncio cancels tasks; no clock has to jump here."""
    return ("asyncio", {"use_uvloop": request.param == "uvloop"})


@CALLS
async def test_task_is_cancelled(rig, options):
    """The caller's task is cancelled: event cancelled, native; CancelledError goes on."""
    rig.job(rig.forever)
    task = asyncio.create_task(rig.attempt(**options()))
    await rig.running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rig.saw(*ENDED, effect="unknown", **NATIVE)


@CALLS
async def test_cancel_message_survives(rig, options):
    """The handler's own CancelledError goes on, its message included."""
    rig.job(rig.forever)
    task = asyncio.create_task(rig.attempt(**options()))
    await rig.running.wait()
    task.cancel("stop it")
    with pytest.raises(asyncio.CancelledError, match="stop it"):
        await task
    rig.saw(*ENDED, **NATIVE)


@CALLS
async def test_task_cancelled_before_it_runs(rig, options):
    """The call starts in an already cancelled task: never entered, event native, re-raised."""
    rig.job(rig.done)

    async def call():
        asyncio.current_task().cancel()
        await rig.attempt(**options())

    task = asyncio.create_task(call())
    with pytest.raises(asyncio.CancelledError):
        await task
    rig.saw("requested", "cancelled", entered=0, effect="none", **NATIVE)


@CALLS
async def test_call_while_cleaning_up_runs(rig, options):
    """A call made while cleaning up after a delivered `Task.cancel()` runs normally."""
    rig.job(rig.done)
    outcomes = []

    async def call():
        try:
            await anyio.sleep_forever()
        finally:
            outcomes.append(await rig.attempt(**options()))

    task = asyncio.create_task(call())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rig.told(outcomes[0]) == ("Completed", "done", False, "done")
    rig.saw("requested", "started", "completed", late=False)


@CALLS
async def test_interrupted_call_while_cleaning_up(rig, options):
    """A second `Task.cancel()` interrupts a call that cleans up after the first."""
    rig.job(rig.forever)

    async def call():
        try:
            await anyio.sleep_forever()
        finally:
            await rig.attempt(**options())

    task = asyncio.create_task(call())
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    await rig.running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rig.saw(*ENDED, effect="unknown", **NATIVE)


@CALLS
async def test_cancel_swallowed_goes_on(rig, options):
    """The handler swallows `Task.cancel()` and returns: CancelledError goes on, effect done."""

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return "done"

    rig.job(body)
    task = asyncio.create_task(rig.attempt(**options()))
    await rig.running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rig.saw(*ENDED, effect="done", **NATIVE)


@CALLS
async def test_cancel_withdrawn_by_the_handler(rig, options):
    """A handler that calls `Task.uncancel()` has withdrawn the request: Completed."""

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()
        return "done"

    rig.job(body)
    task = asyncio.create_task(rig.attempt(**options()))
    await rig.running.wait()
    task.cancel()
    assert rig.told(await task) == ("Completed", "done", False, "done")
    rig.saw("requested", "started", "completed", late=False)


@CALLS
async def test_cancel_pending_at_the_return_goes_on(rig, options):
    """The handler cancels its own task and returns: not entered into the outcome, it goes on."""

    async def body(ctx):
        asyncio.current_task().cancel()
        return "done"

    rig.job(body)
    task = asyncio.create_task(rig.attempt(**options()))
    with pytest.raises(asyncio.CancelledError):
        await task
    rig.saw(*ENDED, effect="done", **NATIVE)


@CALLS
async def test_cancel_in_a_shield_of_the_handler(rig, options):
    """`Task.cancel()` during the handler's shielded cleanup goes on as native."""

    async def body(ctx):
        with anyio.CancelScope(shield=True):
            await anyio.sleep_forever()

    rig.job(body)
    task = asyncio.create_task(rig.attempt(**options()))
    await rig.running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rig.saw(*ENDED, effect="unknown", **NATIVE)


@CALLS
async def test_asyncio_timeout_around_the_call(rig, options):
    """`asyncio.timeout` around a call is native: the caller gets its own TimeoutError."""
    rig.job(rig.forever)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await rig.attempt(**options())
    assert asyncio.current_task().cancelling() == 0
    rig.saw(*ENDED, effect="unknown", **NATIVE)


@CALLS
async def test_asyncio_timeout_inside_the_handler(rig, options):
    """`asyncio.timeout` inside the handler is the handler's own affair."""

    async def body(ctx):
        try:
            async with asyncio.timeout(0.001):
                await anyio.sleep_forever()
        except TimeoutError:
            return "done"

    rig.job(body)
    assert rig.told(await rig.attempt(**options())) == ("Completed", "done", False, "done")
    assert asyncio.current_task().cancelling() == 0
    rig.saw("requested", "started", "completed", late=False)


@CALLS
async def test_no_cancellation_is_left_on_the_task(rig, options):
    """After an interrupted call the task counts no cancellation and goes on normally."""
    rig.job(rig.forever, timeout=0.01)
    await rig.attempt(**options())
    assert asyncio.current_task().cancelling() == 0
    await anyio.lowlevel.checkpoint()
    rig.saw(*ENDED, code="TIMEOUT", native=False)
