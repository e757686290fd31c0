"""Reporting sinks that fail, without flooding the log.

Here: the rate limit and the log entry. Not here: what counts as a failure.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from capgate.errors import contained

if TYPE_CHECKING:
    from collections.abc import Callable

_log = structlog.get_logger("capgate")
_PERIOD = 60.0


class SinkReporter:
    """Logs `audit_sink_failed` once per sink and kind of failure per minute.

    Only the type of what was raised is logged: its text may hold a sink's credentials.

    Args:
        clock: Monotonic seconds.
    """

    __slots__ = ("_clock", "_last")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def report(
        self, sink: str, kind: str, *, error: BaseException | None = None, events: int = 1
    ) -> None:
        """Report one failure; never raises.

        Args:
            sink: The sink's name, unique in the engine.
            kind: A constant, such as `"raised"` or `"timeout"`.
            error: What was raised, if anything was.
            events: How many events were affected.
        """
        # A clock or a logger that breaks must not turn a report into an outcome.
        contained(lambda: self._report(sink, kind, error, events))

    def _report(self, sink: str, kind: str, error: BaseException | None, events: int) -> None:
        last = self._last.get((sink, kind))
        now = self._clock()
        if last is not None and now - last[0] < _PERIOD:
            self._last[sink, kind] = (last[0], last[1] + events)
            return
        self._last[sink, kind] = (now, 0)
        _log.error(
            "audit_sink_failed",
            sink=sink,
            kind=kind,
            error_type=None if error is None else type(error).__name__,
            events=events,
            suppressed=0 if last is None else last[1],
        )
