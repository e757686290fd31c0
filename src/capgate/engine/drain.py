"""Closing an engine: which calls live, letting them end, stopping them, what is left unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from capgate.errors import Effect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.abc import TaskStatus

    from capgate.call import Call


@dataclass(frozen=True, slots=True)
class DrainReport:
    """What became of the executions that ran while the engine closed, by execution id.

    `unknown` are those whose side effect may have happened: interrupted, or still cleaning up or
    running in a thread when the engine gave up waiting.
    """

    completed: tuple[str, ...] = ()
    cancelled: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class Background:
    """What runs while an engine is entered.

    It is shielded: when everything around the engine is cancelled, that must still be told.
    """

    __slots__ = ("_group", "_scope")

    def __init__(self) -> None:
        """Prepare, in the running event loop."""
        self._group = anyio.create_task_group()
        self._scope = anyio.CancelScope(shield=True)

    async def start(self, run: Callable[..., Awaitable[None]]) -> None:
        """Start `run` and wait until it says that it has started."""
        await self._group.__aenter__()
        await self._group.start(self._shielded, run)

    async def _shielded(
        self, run: Callable[..., Awaitable[None]], *, task_status: TaskStatus[None]
    ) -> None:
        with self._scope:
            await run(task_status=task_status)

    async def stop(self) -> None:
        """Cancel it and wait for its end; what it raised is raised here."""
        self._scope.cancel()
        # Without what the engine's block raised: that goes on as it is, in no group.
        await self._group.__aexit__(None, None, None)


class Live:
    """The calls under way."""

    __slots__ = ("_calls", "closing")

    closing: bool

    def __init__(self, calls: set[Call]) -> None:
        """Watch the set that the plans keep."""
        self._calls = calls
        self.closing = False

    def __len__(self) -> int:
        return len(self._calls)

    def calls(self) -> tuple[Call, ...]:
        """Return the calls under way."""
        return tuple(self._calls)

    async def drain(self, grace: float, cleanup: float) -> DrainReport:
        """Wait, then stop what still runs, then report.

        Args:
            grace: Seconds the calls may go on.
            cleanup: Seconds the stopped ones may clean up.
        """
        under_way = self.calls()
        await self._wait(grace)
        for call in self.calls():
            call.halt()
        await self._wait(cleanup)
        return _report(under_way, frozenset(self._calls))

    async def _wait(self, seconds: float) -> None:
        # Polling: a call must not pay for an event that only closing needs.
        end = anyio.current_time() + seconds
        while self._calls:
            if anyio.current_time() >= end:
                return
            await anyio.sleep(0.005)


def _report(calls: tuple[Call, ...], left: frozenset[Call]) -> DrainReport:
    completed: list[str] = []
    cancelled: list[str] = []
    unknown: list[str] = []
    for call in calls:
        open_ended = call in left or call.still_running
        if (open_ended and call.entered) or call.effect is Effect.UNKNOWN:
            unknown.append(call.execution_id)
        elif call.error is None and call not in left:
            completed.append(call.execution_id)
        else:
            cancelled.append(call.execution_id)
    return DrainReport(tuple(completed), tuple(cancelled), tuple(unknown))
