"""Delivery in place: sync sinks at once, async sinks awaited by the caller."""

from __future__ import annotations

import asyncio
import functools

import anyio
import pytest

from capgate.audit import Auditor, MemoryAudit


def auditor(*sinks, timeout=5.0, **options):
    return Auditor(sinks, strict=False, timeout=timeout, **options)


async def deliver(audit, event):
    pending = audit.emit(event)
    if pending is not None:
        await pending


def kinds(log):
    return [entry["kind"] for entry in log]


def raising(error):
    def sink(event):
        raise error

    return sink


async def hang(event):
    await anyio.sleep_forever()


def test_without_sinks_there_is_nothing_to_do(make):
    """An auditor with no sinks is not active and takes events in silence."""
    audit = auditor()
    assert not audit.active
    assert audit.emit(make()) is None


def test_sync_sinks_are_called_in_place(make):
    """With sync sinks only, every sink has the event when emit returns nothing."""
    one, two = MemoryAudit(), MemoryAudit()
    event = make()
    assert auditor(one, two).emit(event) is None
    assert one.events == two.events == [event]


async def async_sink(into, event):
    await anyio.lowlevel.checkpoint()
    into.append(event)


class Sinks:
    """Every way to write an async sink, each keeping its events in one list."""

    def __init__(self):
        self.events = []

    async def method(self, event):
        await async_sink(self.events, event)

    async def __call__(self, event):
        await async_sink(self.events, event)

    def plain(self, event):
        return async_sink(self.events, event)


def itself(sinks):
    return sinks


@pytest.mark.parametrize(
    "sink_of",
    [
        itself,
        lambda sinks: sinks.method,
        lambda sinks: sinks.plain,
        lambda sinks: functools.partial(async_sink, sinks.events),
        functools.partial,
    ],
    ids=["object", "method", "returns", "partial", "partial-object"],
)
async def test_a_sink_is_async_by_what_it_returns(sink_of, make):
    """Any callable that returns an awaitable gets each event once, in order."""
    sinks = Sinks()
    audit = auditor(sink_of(sinks))
    events = [make("exe_1"), make("exe_2"), make("exe_3")]
    for event in events:
        await deliver(audit, event)
    assert sinks.events == events


async def test_a_raising_sink_starves_no_other(make, log):
    """Sinks before and after a failing one get every event, sync or async."""
    sync, later = MemoryAudit(), Sinks()

    async def broken(event):
        raise ValueError("canary")

    audit = auditor(raising(ValueError("canary")), broken, sync, later)
    await deliver(audit, make())
    assert len(sync.events) == len(later.events) == 1
    assert kinds(log) == ["raised", "raised"]
    assert "canary" not in repr(log)


@pytest.mark.parametrize("junk", [1, False, "text", object(), [], MemoryAudit])
async def test_junk_from_a_sink_is_reported(junk, make, log):
    """A sink that returns a value is contained and reported, called or awaited."""

    async def later(event):
        return junk

    await deliver(auditor(lambda _event: junk, later), make())
    assert kinds(log) == ["junk", "junk"]


async def test_a_generator_is_no_sink(make, log):
    """Functions that yield never ran, and that is reported."""

    def generator(event):
        yield

    async def async_generator(event):
        yield

    async def forgot_to_await(event):
        return hang(event)

    await deliver(auditor(generator, async_generator, forgot_to_await), make())
    assert kinds(log) == ["junk"] * 3


async def test_an_object_that_breaks_when_looked_at_is_contained(make, log):
    """What a sink returned may be hostile; delivery goes on."""

    class Hostile:
        @property
        def __class__(self):
            raise RuntimeError("no")

        def __await__(self):
            raise RuntimeError("no")

    other = MemoryAudit()
    await deliver(auditor(lambda _event: Hostile(), other), make())
    assert len(other.events) == 1
    assert len(log) == 1


async def test_a_hanging_sink_is_bounded_and_starves_no_other(make, log):
    """A sink that hangs is given up after the timeout; another has the event by then."""
    other = Sinks()
    await deliver(auditor(hang, other, timeout=0.01), make())
    assert len(other.events) == 1
    assert kinds(log) == ["timeout"]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_not_swallowed(interrupt, make):
    """What a signal raises inside a sync sink goes on."""
    audit = auditor(raising(interrupt()))
    with pytest.raises(interrupt):
        audit.emit(make())
    with pytest.raises(interrupt):
        audit.emit_sync(make())


async def test_a_cancelled_caller_is_cancelled(make):
    """Cancellation during a delivery in place reaches the caller, and hurts no one else."""
    events, entered, free = [], anyio.Event(), anyio.Event()

    async def slow(event):
        entered.set()
        await free.wait()
        events.append(event.execution_id)

    audit = auditor(slow)
    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(deliver, audit, make("exe_2"))
            await entered.wait()
            scope.cancel()
            await deliver(audit, make("exe_1"))
        assert scope.cancelled_caught
        free.set()
    assert events == ["exe_2"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_natively_cancelled_caller_is_cancelled(make):
    """Cancelling the caller's asyncio task ends it as cancelled."""
    entered = asyncio.Event()

    async def slow(event):
        entered.set()
        await asyncio.sleep(3600)

    task = asyncio.create_task(deliver(auditor(slow), make()))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_a_sink_made_up_is_contained(make, log):
    """A sink that raises a cancellation nobody asked for does not cancel the call."""

    async def later(event):
        raise asyncio.CancelledError

    other = MemoryAudit()
    await deliver(auditor(raising(asyncio.CancelledError()), later, other), make())
    assert len(other.events) == 1
    assert kinds(log) == ["raised", "raised"]


async def test_the_sinks_part_of_a_group_is_contained(make, log):
    """Of a group, a sink's own errors are reported and only an exit goes on."""

    async def errors(event):
        raise ExceptionGroup("", [ValueError("canary")])

    async def mixed(event):
        raise BaseExceptionGroup("", [ValueError("canary"), SystemExit()])

    await deliver(auditor(errors), make())
    with pytest.raises(BaseExceptionGroup) as caught:
        await deliver(auditor(mixed), make())
    assert caught.value.split(ValueError)[0] is None
    assert kinds(log) == ["raised", "raised"]


async def test_a_sink_that_fails_when_it_is_given_up_is_contained(make, log):
    """What a hanging sink raises as it is interrupted is reported, not raised."""

    async def clumsy(event):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("canary")

    await deliver(auditor(clumsy, timeout=0.01), make())
    assert kinds(log) == ["raised"]


def test_a_closing_call_reaches_sync_sinks_only(make):
    """For a coroutine being closed no awaitable is made, and one that was made is closed."""
    memory, later = MemoryAudit(), Sinks()
    audit = auditor(memory, later, later.plain)
    audit.emit_sync(make("exe_1"))
    audit.emit_sync(make("exe_2"))
    assert len(memory.events) == 2
    assert later.events == []


async def test_a_sink_may_cause_events(make):
    """An event emitted from inside a sink is delivered too, each event once."""
    seen = []

    def sink(event):
        if event.execution_id == "outer":
            audit.emit_sync(make("inner"))
        seen.append(event.execution_id)

    audit = auditor(sink)
    await deliver(audit, make("outer"))
    assert seen == ["inner", "outer"]


async def test_concurrent_callers_each_get_through(make):
    """Callers at once each have their event delivered once, in their own order."""
    sinks = Sinks()
    audit = auditor(sinks)

    async def call(name):
        for step in range(3):
            await deliver(audit, make(f"{name}.{step}"))

    async with anyio.create_task_group() as group:
        for name in "abcde":
            group.start_soon(call, name)
    ids = [event.execution_id for event in sinks.events]
    assert len(ids) == 15
    assert all(sorted(mine) == mine for mine in ([i for i in ids if i[0] == n] for n in "abcde"))
