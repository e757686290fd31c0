"""What the scope needs to know of asyncio: the only file of the core that may import it."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from contextvars import Context as EmptyContext
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from capgate.call.guard import Scope, Watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class AsyncioWatch(Watch):
    """The watchdog of one asyncio event loop."""

    name = "asyncio"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch `loop`, which is running."""
        super().__init__()
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        # What the loop's own clock comes down to, unless the loop has one of another kind.
        plain = getattr(loop.time, "__func__", None) is asyncio.BaseEventLoop.time
        self.now: Callable[[], float] = time.monotonic if plain else loop.time
        self.task: Callable[[], Any] = partial(asyncio.current_task, loop)
        # The concrete class: the public constructor looks the back end up on every call.
        self.new_scope: Callable[[], Scope] = type(anyio.CancelScope())
        # The back end's own function, for the same reason.
        back_end = anyio.lowlevel.current_token().backend_class
        self.parent: Callable[[Scope], object] = _parent_in(self.new_scope())
        self._effective_deadline = back_end.current_effective_deadline

    def runs_here(self) -> bool:
        """Tell whether the current code is a task of this loop."""
        return self.thread == threading.get_ident() and self.task() is not None

    def wake_at(self, deadline: float) -> None:
        """Have the loop call `tick` at `deadline`."""
        if self._timer is not None:
            self._timer.cancel()
        # An empty context: the timer belongs to no caller and must keep none alive.
        self._timer = self._loop.call_at(deadline, self.tick, context=EmptyContext())

    def post(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the loop, from any thread."""
        if not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(callback, context=EmptyContext())
            except RuntimeError:
                if not self._loop.is_closed():
                    raise

    def after(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Run `callback` in the loop after `seconds`."""
        return self._loop.call_later(seconds, callback, context=EmptyContext()).cancel

    async def shielded(self, awaitable: Awaitable[None]) -> None:
        """Await in a task of its own: `Task.cancel()` goes through a shield, not into that task."""
        task = self._loop.create_task(_awaited(awaitable))
        with anyio.CancelScope(shield=True):
            while not task.done():
                try:
                    await asyncio.wait({task})
                except asyncio.CancelledError:
                    continue
        task.result()

    def baseline(self, task: asyncio.Task[Any] | None) -> int:
        """Return the cancellations already delivered: requested, less the one still pending."""
        requested = 0 if task is None else task.cancelling()
        return requested and requested - bool(getattr(task, "_must_cancel", False))

    def native(self, task: asyncio.Task[Any] | None, baseline: int) -> bool:
        """Tell whether the task, or a scope around it, has been cancelled from outside."""
        if task is not None and task.cancelling() > baseline:
            return True
        return self._effective_deadline() == -math.inf


def _parent_in(scope: Scope) -> Callable[[Scope], object]:
    """Return what gives the scope around another, or something where that cannot be told."""
    name = "_parent_scope"
    return attrgetter(name) if hasattr(scope, name) else id


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running asyncio loop, None under another library."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def runs_a_task(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether asyncio itself runs the current code: trio may be a guest of its loop."""
    return asyncio.current_task(loop) is not None
