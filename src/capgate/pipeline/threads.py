"""Synchronous handlers: one worker thread each, which nobody can interrupt but anybody can leave."""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING

import anyio.to_thread

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
    """Settles, between the thread and the loop, whether the handler runs and who frees its places."""

    __slots__ = ("_call", "_function", "_keywords", "_lock", "_release", "_state")

    def __init__(
        self,
        call: Call,
        function: Callable[..., Argument],
        keywords: Mapping[str, Argument],
        release: Callable[[], None],
    ) -> None:
        self._call = call
        self._function = function
        self._keywords = keywords
        self._release = release
        self._state = _State.QUEUED
        self._lock = threading.Lock()

    def run(self) -> Argument:
        """Run in the thread, unless the call has gone by then."""
        with self._lock:
            if self._state is _State.DROPPED:
                return None
            self._state = _State.RUNNING
            self._call.entered = True
        try:
            return self._function(**self._keywords)
        finally:
            with self._lock:
                self._state = _State.DONE
            self._release()

    def leave(self) -> bool:
        """Leave the thread behind; returns whether the handler still runs in it."""
        with self._lock:
            if self._state is _State.QUEUED:
                self._state = _State.DROPPED
                self._release()
            return self._state is _State.RUNNING


async def in_thread(
    call: Call,
    function: Callable[..., Argument],
    keywords: Mapping[str, Argument],
    *,
    threads: Slots,
    release: Callable[[], None],
) -> Argument:
    """Run a synchronous handler in a worker thread.

    Args:
        call: The call; `entered` and `still_running` are written on it.
        function: The handler.
        keywords: What it is called with.
        threads: The engine's places for threads; this one is kept until the thread ends.
        release: Gives the call's other places back; called when the thread ends, or at once if
            it never started.
    """
    await threads.acquire()

    def free() -> None:
        threads.release()
        release()

    cell = _Cell(call, function, keywords, free)
    try:
        # A limiter of its own: the places are counted here, not by anyio.
        return await anyio.to_thread.run_sync(
            cell.run, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    except BaseException:
        call.still_running = cell.leave()
        raise
