"""`Task.cancel()` while a sink takes an event: neither event nor cancellation is lost."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from capgate.audit import AuditConfig


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request):
    """Only asyncio cancels tasks; no clock has to jump here."""
    return ("asyncio", {"use_uvloop": request.param == "uvloop"})


class SlowSink:
    """An async sink that holds on to the events of one type until it is let go."""

    def __init__(self, kind):
        self.kind = f"capability.{kind}"
        self.holding = anyio.Event()
        self.let_go = anyio.Event()
        self.taken = []

    async def __call__(self, event):
        if event.type == self.kind:
            self.holding.set()
            await self.let_go.wait()
        self.taken.append(event.type.removeprefix("capability."))


@pytest.mark.parametrize("strict", [False, True])
async def test_repeated_cancel_cannot_break_the_terminal_event(make_rig, strict):
    """Repeated `Task.cancel()` while an async sink takes the terminal event: it is written once."""
    sink = SlowSink("cancelled")
    rig = make_rig(audit=AuditConfig(sink, strict=strict))
    rig.job(rig.forever)
    task = asyncio.create_task(rig.attempt())
    await rig.running.wait()
    task.cancel()
    await sink.holding.wait()
    for _ in range(5):
        task.cancel()
        await anyio.wait_all_tasks_blocked()
    assert not task.done()
    sink.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sink.taken == ["requested", "started", "cancelled"]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("times", [1, 3])
async def test_cancel_during_the_event_of_a_success(make_rig, strict, times):
    """`Task.cancel()` while a sink takes `completed`: the event stands, CancelledError goes on."""
    sink = SlowSink("completed")
    rig = make_rig(audit=AuditConfig(sink, strict=strict))
    rig.job(rig.done)
    task = asyncio.create_task(rig.attempt())
    await sink.holding.wait()
    for _ in range(times):
        task.cancel()
        await anyio.wait_all_tasks_blocked()
    sink.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sink.taken == ["requested", "started", "completed"]


@pytest.mark.parametrize("kind", ["requested", "started"])
async def test_cancel_during_an_earlier_event(make_rig, kind):
    """`Task.cancel()` while a sink takes an earlier event: never entered, event native."""
    sink = SlowSink(kind)
    rig = make_rig(audit=sink)
    rig.job(rig.done)
    task = asyncio.create_task(rig.attempt())
    await sink.holding.wait()
    task.cancel()
    await anyio.wait_all_tasks_blocked()
    sink.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sink.taken[-1] == "cancelled"
    assert sink.taken[0] == "requested"
    assert rig.entered == 0


async def test_cancel_during_the_event_of_a_failure(make_rig):
    """`Task.cancel()` while a sink takes `failed`: the event stands, CancelledError goes on."""
    sink = SlowSink("failed")
    rig = make_rig(audit=sink)

    async def body(ctx):
        raise ValueError("own")

    rig.job(body)
    task = asyncio.create_task(rig.attempt())
    await sink.holding.wait()
    task.cancel()
    await anyio.wait_all_tasks_blocked()
    sink.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sink.taken == ["requested", "started", "failed"]
