"""The truth table's row about what must leave the process: told as failed, then re-raised."""

from __future__ import annotations

import types

import anyio
import pytest

from capgate import CancelToken

PLAIN = pytest.param(dict, id="plain")
TIMED = pytest.param(lambda: {"timeout": 60}, id="timeout")
HELD = pytest.param(lambda: {"cancel": CancelToken()}, id="token")
CALLS = pytest.mark.parametrize("options", [PLAIN, TIMED, HELD])
EXITS = pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])


@CALLS
@EXITS
async def test_exit_of_the_process_goes_on(rig, kind, options):
    """KeyboardInterrupt and SystemExit are told as failed and re-raised, the same object."""
    raised = kind("now")

    async def body(ctx):
        raise raised

    rig.job(body)
    with pytest.raises(kind) as caught:
        await rig.attempt(**options())
    assert caught.value is raised
    rig.saw("requested", "started", "failed", code="INTERNAL_ERROR", effect="unknown")


@CALLS
@EXITS
async def test_exit_inside_a_group_goes_on(rig, kind, options):
    """An exit inside a group, however deep, leaves as that group."""
    inner = BaseExceptionGroup("inner", [kind("now"), ValueError("own")])
    raised = BaseExceptionGroup("outer", [inner])

    async def body(ctx):
        raise raised

    rig.job(body)
    with pytest.raises(BaseExceptionGroup) as caught:
        await rig.attempt(**options())
    assert caught.value is raised
    rig.saw("requested", "started", "failed", code="INTERNAL_ERROR", effect="unknown")


@EXITS
async def test_exit_while_interrupted_goes_on(rig, kind):
    """An exit raised during an interruption comes before TIMEOUT and CANCELLED."""

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        finally:
            raise kind("now")

    rig.job(body, timeout=0.02)
    with pytest.raises(kind):
        await rig.attempt()
    rig.saw("requested", "started", "failed", code="INTERNAL_ERROR", effect="unknown")


@types.coroutine
def suspend():
    """Suspend once, for whoever drives the coroutine by hand."""
    yield


@CALLS
async def test_closed_coroutine_is_told_at_once(rig, options):
    """GeneratorExit: one event for the synchronous sinks, nothing awaited, re-raised."""
    left = []

    async def body(ctx):
        try:
            await suspend()
        finally:
            left.append("body")

    rig.job(body)
    calling = rig.attempt(**options())
    calling.send(None)
    calling.close()
    assert left == ["body"]
    rig.saw("requested", "started", "cancelled", code="CANCELLED", native=True, effect="unknown")


async def test_closed_coroutine_awaits_no_sink(make_rig):
    """GeneratorExit with an async sink: it is not awaited, and closing does not fail."""
    taken = []

    async def sink(event):
        taken.append(event.type)

    rig = make_rig(audit=[sink])

    async def body(ctx):
        await suspend()
        return "done"

    rig.job(body)
    calling = rig.engine.attempt("job", {})
    await Driven(calling, rig.running)
    calling.close()
    assert taken == ["capability.requested", "capability.started"]


class Driven:
    """Runs a coroutine by hand, through this task's own suspensions, until an event is set."""

    def __init__(self, coroutine, event):
        self.coroutine = coroutine
        self.event = event

    def __await__(self):
        value = None
        while True:
            request = self.coroutine.send(value)
            if self.event.is_set():
                return
            value = yield request
