"""Places for a bounded number of things at once, with a bounded queue; no threads here."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

import anyio

from capgate.call import Overrun, Stray, bounded, current_watch
from capgate.errors import CapabilityError, ErrorCode

if TYPE_CHECKING:
    from capgate.call import Call, Watch


class _Waiter:
    __slots__ = ("event", "granted", "watch")

    def __init__(self, watch: Watch) -> None:
        self.event = anyio.Event()
        self.watch = watch
        self.granted = False


class Slots:
    """A limiter whose places are given back by hand, from any thread.

    An abandoned thread keeps its place until it ends, which anyio's own limiter does not do on
    every back end.

    Args:
        limit: Places, at least 1.
        max_queue: Callers that may wait.
    """

    __slots__ = ("_limit", "_lock", "_max_queue", "_used", "_waiting")

    def __init__(self, limit: int, max_queue: int) -> None:
        """See the class."""
        self._limit = limit
        self._max_queue = max_queue
        self._used = 0
        self._waiting: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Places taken now."""
        return self._used

    @property
    def waiting(self) -> int:
        """Callers in the queue now."""
        return len(self._waiting)

    async def acquire(self) -> None:
        """Take a place, waiting in line for it.

        Raises:
            CapabilityError: RATE_LIMITED when the queue is full.
        """
        with self._lock:
            if self._used < self._limit and not self._waiting:
                self._used += 1
                return
            if len(self._waiting) >= self._max_queue:
                raise CapabilityError(ErrorCode.RATE_LIMITED, reason="queue full")
            waiter = _Waiter(current_watch())
            self._waiting.append(waiter)
        try:
            await waiter.event.wait()
        except BaseException:
            self._leave(waiter)
            raise

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            if not waiter.granted:
                self._waiting.remove(waiter)
                return
        self.release()

    def release(self) -> None:
        """Give a place back: to who waits longest, if anybody does."""
        with self._lock:
            if not self._waiting:
                self._used -= 1
                return
            waiter = self._waiting.popleft()
            waiter.granted = True
        waiter.watch.post(waiter.event.set)


class Places:
    """The places that a call of one capability takes before its handler, in order.

    Args:
        shared: The engine's. A nested call needs none: it rides on its parent's, for which it
            would otherwise wait in vain.
        own: The capability's.
        seconds: How long a call waits for each.
    """

    __slots__ = ("_own", "_seconds", "_shared")

    def __init__(self, shared: Slots | None, own: Slots | None, seconds: float) -> None:
        """See the class."""
        self._shared = shared
        self._own = own
        self._seconds = seconds

    def __bool__(self) -> bool:
        return self._shared is not None or self._own is not None

    async def take(self, call: Call) -> None:
        """Take them; the call holds what it got, also when it does not get all.

        Raises:
            CapabilityError: RATE_LIMITED when a queue is full, TIMEOUT after a wait in vain.
        """
        nested = call.parent_execution_id is not None
        for slots in (None if nested else self._shared, self._own):
            if slots is not None:
                await self._take(call, slots)

    async def _take(self, call: Call, slots: Slots) -> None:
        async def hold() -> None:
            await slots.acquire()
            call.places = (*call.places, slots.release)

        try:
            await bounded(hold(), self._seconds, call)
        except CapabilityError:
            call.denial = "rate-limited"
            raise
        except (Overrun, Stray) as error:
            raise CapabilityError(ErrorCode.TIMEOUT) from error
