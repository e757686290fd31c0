"""Closing an engine: which calls live, letting them end, stopping them, and what is left unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from capgate.errors import Effect

if TYPE_CHECKING:
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


class Live:
    """The calls under way."""

    __slots__ = ("_calls", "closing")

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
        with anyio.move_on_after(seconds):
            # Polling: a call must not pay for an event that only closing needs.
            while self._calls:
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
