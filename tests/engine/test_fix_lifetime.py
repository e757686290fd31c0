"""Entering and leaving an engine: whose exception goes on, what is told, what is delivered."""

from __future__ import annotations

import anyio
import pytest
import structlog.testing

from capgate import Engine, Limits


def world(sink, **limits):
    """Build an engine with an async sink and one capability."""
    engine = Engine("test", audit=[sink], limits=Limits(**limits))

    @engine.capability("cap", access="public")
    async def cap() -> int:
        """Give one."""
        return 1

    return engine


def slow_sink(got, pause=None):
    async def sink(event):
        await (anyio.lowlevel.checkpoint() if pause is None else anyio.sleep(pause))
        got.append(event.type.removeprefix("capability."))

    return sink


EVENTS = ["requested", "started", "completed"]


@pytest.mark.parametrize("kind", [LookupError, KeyboardInterrupt])
async def test_the_blocks_own_exception_goes_on(kind):
    """What the block raised leaves it as it is, after the events and with a report."""
    got, raised = [], kind("own")
    engine = world(slow_sink(got))

    async def use():
        async with engine:
            await engine.invoke("cap")
            raise raised

    with pytest.raises(kind) as caught:
        await use()
    assert caught.value is raised
    assert got == EVENTS
    assert engine.drained is not None


async def test_events_are_delivered_when_all_is_cancelled():
    """A cancellation around the engine goes on, after what was queued has been delivered."""
    got = []
    engine = world(slow_sink(got))
    with anyio.CancelScope() as scope:
        async with engine:
            await engine.invoke("cap")
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert got == EVENTS


async def test_draining_takes_as_long_as_the_sink_takes_events():
    """The limit of one event is not the limit of all that are queued."""
    got = []
    async with world(slow_sink(got, 0.01), audit_timeout=0.1) as engine:
        for _ in range(10):
            await engine.invoke("cap")
    assert got == EVENTS * 10


async def test_a_sink_that_takes_nothing_is_given_up():
    """A sink that hangs does not hold the engine up for every event that is queued."""

    async def hangs(event):
        await anyio.sleep_forever()

    with structlog.testing.capture_logs() as logs, anyio.fail_after(5):
        async with world(hangs, audit_timeout=0.01) as engine:
            for _ in range(300):
                await engine.invoke("cap")
    assert {entry["kind"] for entry in logs} == {"timeout", "stopped"}


def test_a_closed_engine_tells_what_became_of_its_calls():
    """Before it is closed an engine has no report."""
    assert Engine("test").drained is None
