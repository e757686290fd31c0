"""Handlers with cancel scopes and task groups of their own, closed or left open."""

from __future__ import annotations

import asyncio
import contextlib

import anyio
import anyio.lowlevel
import pytest

from capgate import CancelToken
from capgate.call import current_watch

DONE = ("Completed", "done", False, "done")

PLAIN = pytest.param(dict, id="plain")
TIMED = pytest.param(lambda: {"timeout": 60}, id="timeout")
HELD = pytest.param(lambda: {"cancel": CancelToken()}, id="token")
CALLS = pytest.mark.parametrize("options", [PLAIN, TIMED, HELD])


@CALLS
async def test_handler_cancels_its_own_task_group(rig, options):
    """A handler that opens a task group and cancels it has not been cancelled."""

    async def body(ctx):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(anyio.sleep_forever)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        return "done"

    rig.job(body)
    assert rig.told(await rig.attempt(**options())) == DONE
    rig.saw("requested", "started", "completed", late=False)


@CALLS
async def test_handler_cancels_its_own_scope(rig, options):
    """A handler that cancels its own scope, or lets it run out, has not been cancelled."""

    async def body(ctx):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep_forever()
        with anyio.move_on_after(0.001):
            await anyio.sleep_forever()
        return "done"

    rig.job(body)
    assert rig.told(await rig.attempt(**options())) == DONE
    rig.saw("requested", "started", "completed", late=False)


async def test_interruption_reaches_the_handler_s_tasks(rig):
    """The deadline interrupts the tasks of the handler's own group too."""
    ended = []

    async def child():
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("child")

    async def body(ctx):
        async with anyio.create_task_group() as group:
            group.start_soon(child)

    rig.job(body, timeout=0.02)
    outcome = await rig.attempt()
    assert outcome.error.code == "TIMEOUT"
    assert ended == ["child"]
    rig.saw("requested", "started", "cancelled", code="TIMEOUT", native=False)


async def test_shield_of_the_handler_outlasts_the_deadline(rig):
    """What the handler shields is not interrupted; its value is late."""

    async def body(ctx):
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.03)
        return "done"

    rig.job(body, timeout=0.02)
    assert rig.told(await rig.attempt()) == ("Completed", "done", True, "done")
    rig.saw("requested", "started", "completed", late=True)


async def in_a_task_of_its_own(function):
    """Run `function` where it can spoil no scope of the test's; returns its result."""
    if current_watch().name == "asyncio":
        return await asyncio.create_task(function())
    results = []

    async def run():
        results.append(await function())

    # What is left open spoils the end of its task: trio says so there.
    with contextlib.suppress(BaseExceptionGroup):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
    return results[0]


@CALLS
async def test_scope_left_open_is_the_handler_s_failure(rig, options):
    """A handler that leaves a cancel scope open has failed; one event tells it, nothing hangs."""

    async def body(ctx):
        anyio.CancelScope().__enter__()
        return "done"

    rig.job(body)
    outcome = await in_a_task_of_its_own(lambda: rig.attempt(**options()))
    assert outcome.status == "failed"
    assert outcome.error.stage == "execution"
    rig.saw("requested", "started", "failed")


async def test_task_group_left_open_is_the_handler_s_failure(rig):
    """A handler that leaves a task group open has failed; one event tells it, nothing hangs."""
    groups = []

    async def body(ctx):
        groups.append(anyio.create_task_group())
        await groups[0].__aenter__()
        groups[0].start_soon(anyio.sleep_forever)
        return "done"

    async def call():
        outcome = await rig.attempt()
        groups[0].cancel_scope.cancel()
        return outcome

    rig.job(body)
    outcome = await in_a_task_of_its_own(call)
    assert outcome.status == "failed"
    assert outcome.error.stage == "execution"
    rig.saw("requested", "started", "failed")


async def test_other_calls_do_not_mind_a_scope_left_open(rig):
    """What one handler leaves open does not reach the calls of other tasks."""
    scopes = []

    async def body(ctx):
        if not scopes:
            scopes.append(anyio.CancelScope())
            scopes[0].__enter__()
        return "done"

    rig.job(body)
    await in_a_task_of_its_own(rig.attempt)
    outcome = await in_a_task_of_its_own(rig.attempt)
    assert rig.told(outcome) == DONE
