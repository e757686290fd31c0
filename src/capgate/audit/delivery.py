"""Delivery: which sinks an event goes to, in place or later, awaited or not.

Here: the one auditor of an engine. Not here: calling one sink (lane), building events (pipeline).
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import anyio

from capgate.audit.foreign import bound, looks_async, name_of
from capgate.audit.lane import Item, Lane
from capgate.audit.report import SinkReporter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from anyio.abc import TaskStatus

    from capgate.audit.event import AuditEvent
    from capgate.audit.sink import AuditSink


class AuditFailure(Exception):
    """Sinks did not take an event that had to be written; raised by `Auditor.emit_strict`.

    Args:
        sinks: The names of the sinks that failed.
    """

    sinks: tuple[str, ...]

    def __init__(self, sinks: Sequence[str]) -> None:
        super().__init__(f"not audited by: {', '.join(sinks)}")
        self.sinks = tuple(sinks)


class Auditor:
    """Delivers events to every sink; a sink that fails never changes an outcome.

    Sync sinks are called in place. Async sinks are fed by one worker each while `run` is active,
    and awaited by the caller otherwise. Whether a sink is async is known from what it returned
    first, or from its looks.

    Args:
        sinks: Checked already (`AuditConfig`).
        strict: Whether the pipeline must use `emit_strict` where it matters.
        timeout: Seconds an async sink may take for one event.
        queue_size: Events queued per async sink before callers wait.
        clock: Monotonic seconds, for the rate limit of failure reports.
    """

    __slots__ = ("_direct", "_lanes", "_later", "_running", "active", "sole", "strict", "timeout")

    active: bool
    sole: AuditSink | None
    strict: bool
    timeout: float

    def __init__(
        self,
        sinks: Sequence[AuditSink],
        *,
        strict: bool,
        timeout: float,
        queue_size: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        reporter = SinkReporter(clock)
        lane = partial(Lane, reporter=reporter, timeout=timeout, size=queue_size)
        self._lanes = tuple(lane(sink, f"{name_of(sink)}[{i}]") for i, sink in enumerate(sinks))
        self._later = tuple(each for each in self._lanes if looks_async(each.sink))
        self._sort()
        self._running = False
        self.active = bool(self._lanes)
        self.strict = strict
        self.timeout = timeout

    @property
    def immediate(self) -> bool:
        """Whether no sink is known to be async, so that `emit` needs no await."""
        return not self._later

    def emit(self, event: AuditEvent) -> Awaitable[None] | None:
        """Hand `event` to every sink, best effort.

        Returns:
            None when all is done or queued; otherwise what must be awaited: delivery in place, or
            room in a full queue, each within the timeout.
        """
        for lane, sink in self._direct:
            try:
                returned = sink(event)
            except BaseException as raised:
                if not lane.contains(raised):
                    raise
            else:
                if returned is not None and lane.keep(event, returned) == "later":
                    self._learn(lane)
        return self._emit_later(event, self._later) if self._later else None

    def emit_sync(self, event: AuditEvent) -> None:
        """Hand `event` to the sync sinks only and await nothing: the call is being closed."""
        for lane, _ in self._direct:
            if lane.call(event) == "later":
                self._learn(lane)
                lane.drop_stash()

    def emit_but(self, event: AuditEvent, kept_by: object) -> Awaitable[None] | None:
        """Hand `event`, best effort, to every sink but one, which has it already; as `emit`."""
        for lane, _ in self._direct:
            if lane.sink is not kept_by and lane.call(event) == "later":
                self._learn(lane)
        others = self._later_but(kept_by)
        return self._emit_later(event, others) if others else None

    async def emit_strict(self, event: AuditEvent, kept_by: object = None) -> None:
        """Hand `event` to every sink and wait until each has taken it, within the timeout.

        Args:
            event: What is told.
            kept_by: A sink that has it already, and is left out.

        Raises:
            AuditFailure: A sink failed; the others were still served.
        """
        failed: list[str] = []
        for lane, _ in self._direct:
            failure = None if lane.sink is kept_by else lane.call(event)
            if failure == "later":
                self._learn(lane)
            elif failure is not None:
                failed.append(lane.name)
        pending = [(lane, lane.item(event)) for lane in self._later_but(kept_by)]
        await (self._queued(pending) if self._running else self._inline(pending))
        failed += [lane.name for lane, item in pending if item.failure is not None]
        if failed:
            raise AuditFailure(failed)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Deliver in the background until cancelled; what is queued then is reported as lost.

        Raises:
            RuntimeError: It runs already.
        """
        if self._running:
            raise RuntimeError("the auditor runs already")
        try:
            async with anyio.create_task_group() as group:
                for lane in self._lanes:
                    group.start_soon(lane.work)
                self._running = True
                task_status.started()
        finally:
            self._running = False
            for lane in self._lanes:
                lane.abandon()

    async def drain(self, timeout: float) -> bool:
        """Wait until all that was queued before is delivered, however long that takes in all.

        Args:
            timeout: Seconds that one event may take. A sink is given up when it has taken none
                for twice as long.

        Returns:
            Whether it was.
        """
        marks = [(lane, Item(None)) for lane in self._lanes if lane.backlog]
        async with anyio.create_task_group() as group:
            for lane, mark in marks:
                lane.push(mark)
                group.start_soon(_reach, lane, mark, 2 * timeout)
        return all(mark.settled and mark.failure is None for _, mark in marks)

    async def flush(self, sink: object) -> None:
        """Wait until one sink has been given all that was queued before; at most the timeout."""
        marks = [(lane, Item(None)) for lane in self._lanes if lane.sink is sink and lane.backlog]
        with anyio.move_on_after(self.timeout):
            for lane, mark in marks:
                lane.push(mark)
                await mark.wait()

    def _learn(self, lane: Lane) -> None:
        """Treat a sink as async from now on: it returned an awaitable."""
        if lane not in self._later:
            self._later = (*self._later, lane)
        self._sort()

    def _sort(self) -> None:
        """Tell the sinks that are called in place from the others."""
        self._direct = _sync_of(self._lanes, self._later)
        # An event may be handed to it by the caller of `emit`, which then spares a loop.
        self.sole = self._direct[0][1] if len(self._lanes) == len(self._direct) == 1 else None

    def failed(self, raised: BaseException) -> None:
        """Take up what `sole` raised.

        Raises:
            BaseException: It must leave the process.
        """
        if not self._lanes[0].contains(raised):
            raise raised

    def kept(self, event: AuditEvent, returned: object) -> Awaitable[None] | None:
        """Take up what `sole` returned, which should have been None; awaitable as `emit`."""
        lane = self._lanes[0]
        if lane.keep(event, returned) != "later":
            return None
        self._learn(lane)
        return self._emit_later(event, self._later)

    def _later_but(self, kept_by: object) -> Sequence[Lane]:
        return [lane for lane in self._later if lane.sink is not kept_by]

    def _emit_later(self, event: AuditEvent, later: Sequence[Lane]) -> Awaitable[None] | None:
        if not self._running:
            return self._inline([(lane, lane.item(event)) for lane in later])
        waits: list[tuple[Lane, Item, Item]] = []
        for lane in later:
            item = lane.item(event)
            ahead = lane.push(item)
            if ahead is not None:
                waits.append((lane, item, ahead))
        return self._for_room(waits) if waits else None

    async def _for_room(self, waits: Sequence[tuple[Lane, Item, Item]]) -> None:
        """Wait until the queues are back at their size, or the timeout."""
        try:
            with anyio.move_on_after(self.timeout):
                for lane, item, ahead in waits:
                    await lane.room(item, ahead)
        finally:
            for lane, item, _ in waits:
                lane.leave(item)

    async def _inline(self, pending: Sequence[tuple[Lane, Item]]) -> None:
        """Deliver now, to all sinks at once; tasks of our own keep a sink's cancellation inside."""

        async def deliver(lane: Lane, item: Item) -> None:
            item.finish(await lane.deliver(item))

        try:
            async with anyio.create_task_group() as group:
                for lane, item in pending:
                    group.start_soon(deliver, lane, item)
        finally:
            for _, item in pending:
                item.withdraw()

    async def _queued(self, pending: Sequence[tuple[Lane, Item]]) -> None:
        """Queue and wait for the delivery; what is late is withdrawn and counts as failed."""
        for lane, item in pending:
            lane.push(item)
        late: list[tuple[Lane, Item]] = []
        try:
            with anyio.move_on_after(self.timeout):
                for _, item in pending:
                    await item.wait()
        finally:
            late += [(lane, item) for lane, item in pending if not item.settled]
            for lane, item in late:
                lane.give_up(item, "withdrawn")
        for lane, item in late:
            item.failure = lane.fail("timeout")


def _sync_of(lanes: Iterable[Lane], later: Sequence[Lane]) -> tuple[tuple[Lane, AuditSink], ...]:
    return tuple((lane, bound(lane.sink)) for lane in lanes if lane not in later)


async def _reach(lane: Lane, mark: Item, patience: float) -> None:
    """Wait for `mark` for as long as the sink takes an event within `patience` seconds."""
    end = anyio.current_time() + patience
    while not mark.settled:
        head = lane.backlog[0]
        with anyio.CancelScope(deadline=end):
            await head.wait()
        if head.settled and head.failure != "timeout":
            end = anyio.current_time() + patience
        elif anyio.current_time() >= end:
            return
