"""What the scope needs to know of trio; imported only when trio is what runs."""

from __future__ import annotations

import math
import threading
from contextvars import Context as EmptyContext
from typing import TYPE_CHECKING, Any

import trio

from capgate.call.guard import Scope, Watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class TrioWatch(Watch):
    """The watchdog of one trio run."""

    name = "trio"

    def __init__(self, token: trio.lowlevel.TrioToken) -> None:
        """Watch the current run."""
        super().__init__()
        self._token = token
        self._sleeper: trio.CancelScope | None = None
        self._wanted = math.inf
        self.now: Callable[[], float] = trio.lowlevel.current_clock().current_time
        self.task: Callable[[], Any] = _no_task
        self.new_scope: Callable[[], Scope] = trio.CancelScope
        # Asking trio for the deadline is as fast as asking for a scope's parent would be.
        self.parent: Callable[[Scope], object] = id

    def runs_here(self) -> bool:
        """Tell whether the current code is a task of this run."""
        if self.thread != threading.get_ident():
            return False
        try:
            # Where trio is a guest, the host's own code has a token, but no task.
            trio.lowlevel.current_task()
            return trio.lowlevel.current_trio_token() is self._token
        except RuntimeError:
            return False

    def wake_at(self, deadline: float) -> None:
        """Have the watchdog task call `tick` at `deadline`."""
        self._wanted = deadline
        if self._sleeper is None:
            self._sleeper = trio.CancelScope(deadline=deadline)
            trio.lowlevel.spawn_system_task(self._sleep, context=EmptyContext())
        else:
            self._sleeper.deadline = deadline

    async def _sleep(self) -> None:
        # The task ends when nothing is left to wait for, so an idle run holds no task of ours.
        while self._wanted != math.inf:
            with trio.CancelScope(deadline=self._wanted) as self._sleeper:
                await trio.sleep_forever()
            self._wanted = math.inf
            self.tick()
        self._sleeper = None

    def post(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the run, from any thread."""
        try:
            self._token.run_sync_soon(callback)
        except trio.RunFinishedError:
            return

    def after(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Run `callback` in the run after `seconds`."""
        scope = trio.CancelScope()

        async def wait() -> None:
            with scope:
                await trio.sleep(seconds)
                callback()

        trio.lowlevel.spawn_system_task(wait, context=EmptyContext())
        return scope.cancel

    async def shielded(self, awaitable: Awaitable[None]) -> None:
        """Await inside a shield."""
        with trio.CancelScope(shield=True):
            await awaitable

    def baseline(self, task: object) -> int:
        """Return 0: trio cancels scopes, never tasks."""
        return 0

    def native(self, task: object, baseline: int) -> bool:
        """Tell whether a scope around the task has been cancelled from outside."""
        return trio.current_effective_deadline() == -math.inf


def _no_task() -> None:
    """Return None: trio cancels scopes, never tasks."""


def watch_current_run() -> TrioWatch:
    """Return a new watchdog for the running trio.

    Raises:
        RuntimeError: trio is not running either.
    """
    return TrioWatch(trio.lowlevel.current_trio_token())
