"""What the scope needs to know of asyncio: the only file of the core that may import it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextvars import Context as EmptyContext

import anyio

from capgate.call.guard import Watch


class AsyncioWatch(Watch):
    """The watchdog of one asyncio event loop."""

    name = "asyncio"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch `loop`, which is running."""
        super().__init__()
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self.now = loop.time
        # The concrete class: the public constructor looks the back end up on every call.
        self.new_scope = type(anyio.CancelScope())

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

    def baseline(self) -> int:
        """Return the cancellations already delivered: requested, less the one still pending."""
        task = asyncio.current_task()
        if task is None:
            return 0
        requested = task.cancelling()
        return requested and requested - bool(getattr(task, "_must_cancel", False))

    def native(self, baseline: int) -> bool:
        """Tell whether the task, or a scope around it, has been cancelled from outside."""
        task = asyncio.current_task()
        if task is not None and task.cancelling() > baseline:
            return True
        return anyio.current_effective_deadline() == -math.inf


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running asyncio loop, or None under another library."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    return None if task is None else task.get_loop()
