"""The truth table's rows about the caller's token."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import pytest

from capgate import CancelToken

CANCELLED = ("Cancelled", "CANCELLED", "cancellation", False)
ENDED = ("requested", "started", "cancelled")
QUIET = {"code": "CANCELLED", "native": False, "still_running": False}


@pytest.fixture
def token():
    """A token; no call may stay subscribed to it."""
    token = CancelToken()
    yield token
    assert token._listeners == {}


async def fire_when(event, token):
    await event.wait()
    token.cancel()


async def test_token_interrupts_the_handler(rig, token):
    """The token fires while the handler runs: it is interrupted, CANCELLED."""
    rig.job(rig.forever)
    async with anyio.create_task_group() as group:
        group.start_soon(fire_when, rig.running, token)
        outcome = await rig.attempt(cancel=token)
    assert rig.told(outcome) == (*CANCELLED, "unknown")
    rig.saw(*ENDED, effect="unknown", **QUIET)


async def test_token_interrupts_again_in_cleanup(rig, token):
    """An unshielded await in the handler's cleanup is interrupted too, on every back end."""
    reached = []

    async def body(ctx):
        try:
            token.cancel()
            await anyio.sleep_forever()
        finally:
            reached.append("cleanup")
            await anyio.sleep(10)
            reached.append("slept")

    rig.job(body)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "unknown")
    assert reached == ["cleanup"]
    rig.saw(*ENDED, effect="unknown", **QUIET)


async def test_token_swallowed_is_cancelled_all_the_same(rig, token):
    """The handler swallows the token's interruption and returns: CANCELLED, effect done."""

    async def body(ctx):
        token.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "done"

    rig.job(body)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "done")
    rig.saw(*ENDED, effect="done", **QUIET)


async def test_token_fired_by_the_handler_itself_is_cancelled(rig, token):
    """The token fires and the handler returns without another await: CANCELLED, effect done."""

    async def body(ctx):
        token.cancel()
        return "done"

    rig.job(body)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "done")
    rig.saw(*ENDED, effect="done", **QUIET)


async def test_other_failure_while_interrupted_by_the_token_is_the_cause(rig, token):
    """The handler raises something else while being interrupted: CANCELLED, that as cause."""
    broken = ValueError("cleanup broke")

    async def body(ctx):
        token.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            raise broken

    rig.job(body)
    outcome = await rig.attempt(cancel=token)
    assert rig.told(outcome) == (*CANCELLED, "unknown")
    assert outcome.error.__cause__ is broken
    rig.saw(*ENDED, effect="unknown", **QUIET)


async def test_token_fired_from_a_thread_is_seen_at_the_return(rig, token):
    """A token fired from a thread while the loop is blocked is seen when the handler returns."""

    async def body(ctx):
        thread = threading.Thread(target=token.cancel_from_thread)
        thread.start()
        thread.join()
        return "done"

    rig.job(body)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "done")
    rig.saw(*ENDED, effect="done", **QUIET)


async def test_token_fired_from_a_thread_is_seen_at_a_failure(rig, token):
    """A token fired from a thread just before a failure: CANCELLED, the failure as cause."""
    broken = ValueError("own")

    async def body(ctx):
        thread = threading.Thread(target=token.cancel_from_thread)
        thread.start()
        thread.join()
        raise broken

    rig.job(body)
    outcome = await rig.attempt(cancel=token)
    assert rig.told(outcome) == (*CANCELLED, "unknown")
    assert outcome.error.__cause__ is broken
    rig.saw(*ENDED, effect="unknown", **QUIET)


async def test_token_fired_after_the_call_changes_nothing(rig, token):
    """The token fires after the call has ended: nothing happens."""
    rig.job(rig.done)
    outcome = await rig.attempt(cancel=token)
    token.cancel()
    await anyio.lowlevel.checkpoint()
    assert rig.told(outcome) == ("Completed", "done", False, "done")
    rig.saw("requested", "started", "completed", late=False)


async def test_one_token_stops_many_calls(rig, token):
    """One token serves many calls: each of them is interrupted and ends by itself."""
    outcomes = []

    async def call():
        outcomes.append(rig.told(await rig.attempt(cancel=token)))

    rig.job(rig.forever)
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        token.cancel()
        token.cancel("again")
    assert outcomes == [(*CANCELLED, "unknown")] * 5
    assert rig.trail.count("cancelled") == 5


async def test_token_in_a_cancelled_handler_s_shield_waits_for_it(rig, token):
    """A shielded cleanup runs to its end; the outcome is the token's."""
    reached = []

    async def body(ctx):
        token.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.001)
                reached.append("cleaned")

    rig.job(body)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "unknown")
    assert reached == ["cleaned"]
    rig.saw(*ENDED, effect="unknown", **QUIET)
