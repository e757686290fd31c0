"""Synchronous handlers: a worker thread each, which can be left but not interrupted."""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING

import anyio.to_thread

from capgate.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from capgate.call import Argument, Call
    from capgate.pipeline.slots import Slots


class _State(Enum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    DROPPED = "dropped"


class _Cell:
    """Settles, between the thread and the loop, whether the handler runs and who frees its places.

    The thread has its own place. The call's other places stay the call's, unless it leaves the
    thread behind: then the thread keeps them until it ends.
    """

    __slots__ = ("_call", "_function", "_inherited", "_keywords", "_lock", "_state", "_threads")

    def __init__(
        self,
        call: Call,
        function: Callable[..., Argument],
        keywords: Mapping[str, Argument],
        threads: Slots,
    ) -> None:
        self._call = call
        self._function = function
        self._keywords = keywords
        self._threads = threads
        self._inherited: Callable[[], None] | None = None
        self._state = _State.QUEUED
        self._lock = threading.Lock()

    def run(self) -> tuple[Argument, BaseException | None]:
        """Run in the thread, unless the call has gone by then.

        The result and what was raised are in a tuple: nothing on the way back may look at them.
        """
        with self._lock:
            if self._state is _State.DROPPED:
                return None, None
            self._state = _State.RUNNING
            self._call.entered = True
        try:
            return self._function(**self._keywords), None
        except BaseException as raised:  # for the loop's side to raise
            return None, raised
        finally:
            with self._lock:
                self._state = _State.DONE
            self._threads.release()
            if self._inherited is not None:
                self._inherited()

    def leave(self) -> bool:
        """Leave the thread behind; returns whether the handler still runs in it."""
        with self._lock:
            if self._state is _State.QUEUED:
                self._state = _State.DROPPED
                self._threads.release()
                self._call.never_ran()
            if self._state is not _State.RUNNING:
                return False
            self._inherited = self._call.take_places()
            return True


async def in_thread(
    call: Call,
    function: Callable[..., Argument],
    keywords: Mapping[str, Argument],
    *,
    threads: Slots,
) -> Argument:
    """Run a synchronous handler in a worker thread.

    Args:
        call: The call; `entered` and `still_running` are written on it.
        function: The handler.
        keywords: What it is called with.
        threads: The engine's places for threads; this one is kept until the thread ends.

    Raises:
        CapabilityError: RATE_LIMITED, when too many wait for a thread already.
    """
    try:
        await threads.acquire()
    except BaseException as raised:
        call.never_ran()
        if isinstance(raised, CapabilityError):
            call.denial = "rate-limited"
        raise
    cell = _Cell(call, function, keywords, threads)
    try:
        # A limiter of its own: the places are counted here, not by anyio.
        result, failure = await anyio.to_thread.run_sync(
            cell.run, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    except BaseException:
        call.still_running = cell.leave()
        raise
    if failure is not None:
        raise failure
    return result
