"""Delivery in the background: queued, bounded, in order, drained."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import anyio
import pytest

from capgate.audit import AuditFailure, Auditor, MemoryAudit


@asynccontextmanager
async def running(*sinks, timeout=5.0, queue_size=10_000):
    """An auditor whose workers run."""
    audit = Auditor(sinks, strict=False, timeout=timeout, queue_size=queue_size)
    async with anyio.create_task_group() as group:
        await group.start(lambda task_status: audit.run(task_status=task_status))
        yield audit
        group.cancel_scope.cancel()


class Gate:
    """An async sink that lets events through once it is open."""

    def __init__(self, *, is_open=False):
        self.ids = []
        self.entered = anyio.Event()
        self.free = anyio.Event()
        if is_open:
            self.free.set()

    async def __call__(self, event):
        self.entered.set()
        await self.free.wait()
        self.ids.append(event.execution_id)


def kinds(log):
    return [entry["kind"] for entry in log]


async def test_async_sinks_are_off_the_hot_path(make):
    """Queued events leave nothing to await, and arrive in order."""
    gate = Gate()
    async with running(gate) as audit:
        assert [audit.emit(make(str(number))) for number in range(5)] == [None] * 5
        assert gate.ids == []
        gate.free.set()
        assert await audit.drain(5)
    assert gate.ids == ["0", "1", "2", "3", "4"]


async def test_a_sink_found_to_be_async_is_queued(make, plain):
    """A plain function that returns awaitables is fed by its worker, in order."""
    gate = Gate(is_open=True)
    async with running(plain(gate)) as audit:
        assert [audit.emit(make(str(number))) for number in range(4)] == [None] * 4
        assert await audit.drain(5)
    assert gate.ids == ["0", "1", "2", "3"]


async def test_sync_sinks_are_still_called_in_place(make):
    """With workers running, a sync sink has the event when emit returns."""
    memory = MemoryAudit()
    async with running(memory, Gate()) as audit:
        audit.emit(make())
        assert len(memory.events) == 1


async def test_a_full_queue_makes_callers_wait(make):
    """With the queue full, emit hands out a wait that ends when there is room."""
    gate = Gate()
    async with running(gate, queue_size=2) as audit:
        assert audit.emit(make("0")) is None
        assert audit.emit(make("1")) is None
        waiting = audit.emit(make("2"))
        with anyio.move_on_after(0.01) as scope:
            await waiting
        assert scope.cancelled_caught
        gate.free.set()
        await audit.drain(5)
        assert audit.emit(make("3")) is None
        await audit.drain(5)
    assert gate.ids == ["0", "1", "2", "3"]


async def test_a_waiting_caller_goes_on_when_there_is_room(make):
    """A caller that waits for a full queue is let go by the next delivery."""
    gate = Gate()
    async with running(gate, queue_size=1) as audit:
        audit.emit(make("0"))
        waiting = audit.emit(make("1"))
        gate.free.set()
        await waiting
        assert gate.ids[0] == "0"


async def test_a_queue_is_bounded_under_a_hanging_sink(make, log):
    """Callers of a hanging sink go on after the timeout, and the queue keeps to its bound."""
    async with running(Gate(), queue_size=2, timeout=0.01) as audit:
        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(call, audit, make(str(number)))
        assert len(audit._lanes[0].backlog) <= 4
    assert {"queue-full", "timeout"} <= set(kinds(log))


async def call(audit, event):
    waiting = audit.emit(event)
    await (waiting or anyio.lowlevel.checkpoint())


async def test_a_cancelled_caller_leaves_its_event(make):
    """A caller that is cancelled while it waits for room loses no event."""
    gate = Gate()
    async with running(gate, queue_size=2) as audit:
        audit.emit(make("0"))
        audit.emit(make("1"))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await audit.emit(make("2"))
        gate.free.set()
        assert await audit.drain(5)
    assert gate.ids == ["0", "1", "2"]


async def test_a_caller_that_gives_up_hurts_no_other(make, log):
    """Of many waiting callers one is cancelled: only its own event may be missing."""
    gate = Gate()
    async with running(gate, queue_size=1) as audit:
        async with anyio.create_task_group() as group:
            for number in range(9):
                waiting = audit.emit(make(str(number)))
                if number == 3:
                    with anyio.CancelScope() as scope:
                        scope.cancel()
                        await waiting
                elif waiting is not None:
                    group.start_soon(settled, waiting)
            await anyio.wait_all_tasks_blocked()
            gate.free.set()
        assert await audit.drain(5)
    assert gate.ids == ["0", "1", "2", "4", "5", "6", "7", "8"]
    assert kinds(log) == ["queue-full"]


async def settled(waiting):
    await waiting


async def test_a_hanging_sink_starves_no_other(make, log):
    """While one sink hangs, the other's events arrive."""
    gate = Gate(is_open=True)
    async with running(Gate(), gate, timeout=0.01) as audit:
        for number in range(3):
            audit.emit(make(str(number)))
        assert await audit.drain(5)
    assert gate.ids == ["0", "1", "2"]
    assert kinds(log) == ["timeout"]


async def test_a_failing_sink_keeps_its_worker(make, log):
    """A sink that raises gets the next event all the same."""
    seen = []

    async def sink(event):
        seen.append(event.execution_id)
        raise ValueError("canary")

    async with running(sink) as audit:
        audit.emit(make("0"))
        audit.emit(make("1"))
        assert await audit.drain(5)
    assert seen == ["0", "1"]
    assert kinds(log) == ["raised"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_made_up_cancellation_keeps_the_worker(make, log):
    """A sink that raises a cancellation nobody asked for does not end its delivery."""
    seen = []

    async def sink(event):
        seen.append(event.execution_id)
        raise asyncio.CancelledError

    async with running(sink) as audit:
        audit.emit(make("0"))
        audit.emit(make("1"))
        assert await audit.drain(5)
    assert seen == ["0", "1"]


async def test_drain_waits_for_what_is_being_delivered(make):
    """Drain returns only after the delivery in flight has ended."""
    gate = Gate()
    async with running(gate) as audit, anyio.create_task_group() as group:
        audit.emit(make("0"))
        await gate.entered.wait()
        group.start_soon(release_later, gate)
        assert await audit.drain(5)
        assert gate.ids == ["0"]


async def release_later(gate):
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    gate.free.set()


async def test_drain_is_bounded(make, log):
    """Drain gives up after its time and says so."""
    async with running(Gate()) as audit:
        audit.emit(make())
        assert not await audit.drain(0.01)


async def test_drain_serves_every_sink(make):
    """Drain waits for all sinks, whichever is done first."""
    gates = [Gate(is_open=True), Gate(is_open=True), Gate(is_open=True)]
    async with running(*gates) as audit:
        for number in range(3):
            audit.emit(make(str(number)))
        assert await audit.drain(5)
        assert await audit.drain(5)
    assert [gate.ids for gate in gates] == [["0", "1", "2"]] * 3


async def test_what_is_lost_at_the_end_is_reported(make, log, plain):
    """Events still queued when delivery stops are counted in a report."""
    async with running(plain(Gate())) as audit:
        for number in range(3):
            audit.emit(make(str(number)))
    assert [(e["kind"], e["events"]) for e in log] == [("stopped", 3)]


async def test_delivery_in_place_returns_after_the_end(make):
    """When the workers have stopped, callers await async sinks again."""
    gate = Gate(is_open=True)
    async with running(gate) as audit:
        audit.emit(make("0"))
        await audit.drain(5)
    await audit.emit(make("1"))
    assert gate.ids == ["0", "1"]


async def test_delivery_runs_once(make):
    """A second run is refused: two workers would break the order."""
    async with running(Gate()) as audit:
        with pytest.raises(RuntimeError, match="runs already"):
            await audit.run()


async def test_many_callers_keep_their_order(make):
    """Under load each caller's events arrive in the order of the caller."""
    gate = Gate(is_open=True)

    async def calls(audit, name):
        for step in range(5):
            await call(audit, make(f"{name}.{step}"))

    async with running(gate, queue_size=3) as audit:
        async with anyio.create_task_group() as group:
            for name in "abcdefgh":
                group.start_soon(calls, audit, name)
        assert await audit.drain(5)
    assert len(gate.ids) == 40
    for name in "abcdefgh":
        mine = [each for each in gate.ids if each.startswith(name)]
        assert mine == sorted(mine)


class Batches:
    """A sink that keeps the lists it was given, and can be told to fail."""

    def __init__(self):
        self.given = []
        self.broken = False
        self.go = anyio.Event()

    async def __call__(self, event):
        await self.write_many([event])

    async def write_many(self, events):
        self.given.append([event.execution_id for event in events])
        await self.go.wait()
        if self.broken:
            raise OSError("gone")


async def test_a_sink_that_takes_many_gets_what_waits_as_one_list(make):
    """What is queued while the sink is busy comes in one list, in order, and nothing twice."""
    sink = Batches()
    async with running(sink) as audit:
        for number in range(5):
            audit.emit(make(str(number)))
        await anyio.wait_all_tasks_blocked()
        audit.emit(make("5"))
        sink.go.set()
        assert await audit.drain(5)
    assert [each for given in sink.given for each in given] == [str(n) for n in range(6)]
    assert len(sink.given) < 6


async def test_a_list_that_fails_fails_as_a_whole_and_the_next_is_delivered(make):
    """Everybody who waits for a part of it is told, and the sink is asked again."""
    sink = Batches()
    sink.broken = True
    failed = []

    async def insist(audit, number):
        with pytest.raises(AuditFailure):
            await audit.emit_strict(make(str(number)))
        failed.append(number)

    async with running(sink) as audit:
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(insist, audit, number)
            await anyio.wait_all_tasks_blocked()
            sink.go.set()
        sink.broken = False
        await audit.emit_strict(make("last"))
    assert sorted(failed) == [0, 1, 2, 3]
    assert sink.given[-1] == ["last"]
