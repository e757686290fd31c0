"""One sink, what is queued for it, and the containment of whatever it does.

Here: calling one sink and its worker. Not here: which sinks an event goes to, and when.
"""

from __future__ import annotations

from collections import deque
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Final, cast

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from capgate.audit.foreign import discard, is_awaitable, many_of
from capgate.errors import contained, is_exit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from capgate.audit.event import AuditEvent
    from capgate.audit.report import SinkReporter
    from capgate.audit.sink import AuditSink


_BATCH: Final = 256
"""The most events that a sink is given at once."""


class Item:
    """One event on its way to one sink; without an event, a mark that `drain` waits for."""

    __slots__ = ("_done", "event", "failure", "returned", "settled")

    returned: object
    settled: bool

    def __init__(self, event: AuditEvent | None, returned: object = None) -> None:
        self.event = event
        self.returned = returned
        self.failure: str | None = None
        self.settled = False
        self._done: anyio.Event | None = None

    def finish(self, failure: str | None) -> None:
        """Settle the item and wake who waits for it."""
        self.failure = failure
        self.settled = True
        if self._done is not None:
            self._done.set()

    async def wait(self) -> None:
        """Wait until the item is settled."""
        if self._done is None:
            self._done = anyio.Event()
        if not self.settled:
            await self._done.wait()

    def withdraw(self) -> None:
        """Give the item up: the sink will not be called for it any more."""
        discard(self.returned)
        self.event = self.returned = None


class Lane:
    """One sink and the events that wait for it, delivered in order by one worker."""

    __slots__ = (
        "_flying",
        "_many",
        "_reporter",
        "_size",
        "_stash",
        "_timeout",
        "_wake",
        "backlog",
        "name",
        "sink",
    )

    name: str
    sink: AuditSink

    def __init__(
        self, sink: AuditSink, name: str, *, reporter: SinkReporter, timeout: float, size: int
    ) -> None:
        self.sink = sink
        self.name = name
        self.backlog: deque[Item] = deque()
        self._reporter = reporter
        self._timeout = timeout
        self._size = size
        self._stash: Item | None = None
        self._wake: anyio.Event | None = None
        self._many = many_of(sink)
        # How many items at the head are being delivered now.
        self._flying = 0

    def call(self, event: AuditEvent) -> str | None:
        """Call the sink in place; returns the kind of failure, `"later"` for an awaitable."""
        try:
            returned = self.sink(event)
        except BaseException as raised:
            if not self.contains(raised):
                raise
            return "raised"
        return None if returned is None else self.keep(event, returned)

    def keep(self, event: AuditEvent, returned: object) -> str:
        """Judge what a sink returned in place: an awaitable is kept for the delivery."""
        if is_awaitable(returned):
            self._stash = Item(event, returned)
            return "later"
        return self.fail("junk", returned=returned)

    def contains(self, raised: BaseException) -> bool:
        """Tell whether what a call in place raised is the sink's own fault; then report it."""
        # No cancellation reaches a synchronous call: one raised there is made up.
        if is_exit(raised):
            return False
        self.fail("raised", error=raised)
        return True

    def fail(
        self, kind: str, *, error: BaseException | None = None, returned: object = None
    ) -> str:
        """Report one failure and return its kind."""
        discard(returned)
        self._reporter.report(self.name, kind, error=error)
        return kind

    def drop_stash(self) -> None:
        """Close an awaitable that was kept: nobody can await it."""
        if self._stash is not None:
            self._stash.withdraw()
            self._stash = None

    def item(self, event: AuditEvent) -> Item:
        """Return `event` with what the sink returned for it already, if it was called."""
        stash, self._stash = self._stash, None
        return stash if stash is not None and stash.event is event else Item(event)

    def push(self, item: Item) -> Item | None:
        """Queue an item and wake the worker; returns, when the queue is full, whom to wait for.

        A waiting caller's item stands in the queue already, so order is kept: the queue is never
        longer than its size and those who wait.
        """
        over = len(self.backlog) - self._size
        self.backlog.append(item)
        if self._wake is not None:
            self._wake.set()
        return self.backlog[over] if over >= 0 else None

    async def room(self, item: Item, ahead: Item) -> None:
        """Wait until `item` is within the queue's size, which it is once `ahead` is delivered."""
        waited_for: Item | None = ahead
        while waited_for is not None:
            await waited_for.wait()
            given_up = waited_for.event is None
            waited_for = self._ahead_of(item) if given_up else None

    def _ahead_of(self, item: Item) -> Item | None:
        over = -1 if item.settled else self.backlog.index(item) - self._size
        return self.backlog[over] if over >= 0 else None

    def leave(self, item: Item) -> None:
        """Let a caller go, with room or without: its item stays while the queue is within twice."""
        bound = 2 * self._size
        if not item.settled and len(self.backlog) > bound and self.backlog.index(item) >= bound:
            self.give_up(item, self.fail("queue-full"))

    def give_up(self, item: Item, failure: str) -> None:
        """Take an item out of the queue; one that is being delivered is left to its timeout."""
        if not item.settled and self.backlog.index(item) >= self._flying:
            self.backlog.remove(item)
            item.withdraw()
            item.finish(failure)

    async def work(self) -> None:
        """Deliver what is queued, in order, until cancelled."""
        while True:
            while self.backlog:
                items = self._next()
                self._flying = len(items)
                failure = await self.deliver(*items)
                self._flying = 0
                for item in items:
                    self.backlog.popleft()
                    item.finish(failure)
                await checkpoint()
            self._wake = anyio.Event()
            await self._wake.wait()
            self._wake = None

    def _next(self) -> list[Item]:
        """Return what is delivered next: one item, or as many events as the sink takes at once."""
        head = self.backlog[0]
        if self._many is None or head.event is None or head.returned is not None:
            return [head]
        ready = takewhile(lambda item: item.event and item.returned is None, self.backlog)
        return list(islice(ready, _BATCH))

    async def deliver(self, *items: Item) -> str | None:
        """Call the sink and await it within the timeout; returns the kind of failure.

        Must run in a task of capgate's own: there, a cancellation that no scope asked for is the
        sink's.
        """
        try:
            with anyio.move_on_after(self._timeout) as scope:
                returned = await self._attempt(items)
                return None if returned is None else self.fail("junk", returned=returned)
        except BaseException as raised:
            own, rest = _parts(raised)
            if own is not None:
                self.fail("raised", error=own)
            if rest is not None and is_exit(rest):
                raise rest from None
            if rest is not None:
                # Raises again what a scope asked for; what is left was made up by the sink.
                await checkpoint_if_cancelled()
            return "raised" if own is not None else self.fail("raised", error=raised)
        return self.fail("timeout") if scope.cancelled_caught else None

    async def _attempt(self, items: Sequence[Item]) -> object:
        """Call and await the sink; returns what should have been None."""
        if len(items) > 1 and self._many is not None:
            answer = self._many([item.event for item in items if item.event is not None])
            return await cast("Awaitable[object]", answer) if is_awaitable(answer) else answer
        (item,) = items
        event, returned = item.event, item.returned
        item.returned = None
        if returned is None and event is not None:
            returned = self.sink(event)
        return await cast("Awaitable[object]", returned) if is_awaitable(returned) else returned

    def abandon(self) -> None:
        """Give up what is still queued and report how much it was."""
        lost = sum(item.event is not None for item in self.backlog)
        for item in self.backlog:
            item.withdraw()
            item.finish("stopped")
        self.backlog.clear()
        self._wake = None
        if lost:
            self._reporter.report(self.name, "stopped", events=lost)


def _parts(raised: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the failures in what a delivery raised, and what else is in it."""
    # By the type: a foreign exception may lie about its class, or break when asked.
    if issubclass(type(raised), BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", raised)
        return contained(lambda: BaseExceptionGroup.split(group, Exception)) or (None, raised)
    return (raised, None) if issubclass(type(raised), Exception) else (None, raised)
