"""Sinks that raise what is no error: contained at every event, exits excepted."""

from __future__ import annotations

import asyncio

import anyio
import pytest
import trio

from capgate import Completed, Engine
from capgate.audit import Auditor


class Odd(BaseException):
    """Neither an error nor an exit."""


def trio_cancelled():
    return trio.Cancelled._create(source="explicit")


STRAYS = {
    "odd": Odd,
    "asyncio": asyncio.CancelledError,
    "trio": trio_cancelled,
    "mixed": lambda: BaseExceptionGroup("", [Odd(), ValueError()]),
    "group": lambda: BaseExceptionGroup("", [asyncio.CancelledError()]),
}
EVENTS = ["requested", "started", "completed"]


def sinks(event_type, make_error):
    """Return a synchronous and an async sink that raise at one kind of event."""

    def sink(event):
        if event.type == f"capability.{event_type}":
            raise make_error()

    async def later(event):
        sink(event)

    return {"sync": sink, "async": later}


async def run(sink):
    engine = Engine("e", audit=sink)

    @engine.capability("work", access="public")
    async def work() -> int:
        """Work."""
        return 1

    return await engine.attempt("work")


@pytest.mark.parametrize("manner", ["sync", "async"])
@pytest.mark.parametrize("event_type", EVENTS)
@pytest.mark.parametrize("stray", STRAYS)
async def test_what_a_sink_makes_up_is_contained(stray, event_type, manner, log):
    """The call completes as without the sink, and the sink is reported."""
    outcome = await run(sinks(event_type, STRAYS[stray])[manner])
    assert type(outcome) is Completed
    assert [entry["kind"] for entry in log if entry["event"] == "audit_sink_failed"] == ["raised"]


@pytest.mark.parametrize("leaf", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("event_type", EVENTS)
async def test_an_exit_in_a_sink_goes_on(leaf, event_type):
    """What ends the process ends it, whichever event the sink was at."""
    with pytest.raises(leaf):
        await run(sinks(event_type, leaf)["sync"])


async def test_a_real_cancellation_with_a_failure_beside_it_goes_on(make, log):
    """A sink that fails as its caller is cancelled is reported, and the caller is cancelled."""
    with anyio.CancelScope() as scope:

        async def clumsy(event):
            scope.cancel()
            try:
                await anyio.sleep_forever()
            except BaseException as cancelled:
                raise BaseExceptionGroup("", [cancelled, ValueError()]) from None

        await Auditor([clumsy], strict=False, timeout=60).emit(make())
    assert scope.cancelled_caught
    assert [entry["kind"] for entry in log] == ["raised"]
