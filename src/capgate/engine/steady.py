"""Clocks and ids that cannot break a call: an application's own are contained, and reported once."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from capgate.call import Clock, SystemClock


class SteadyClock:
    """Another clock, replaced by the system's for as long as it fails."""

    __slots__ = ("_clock", "_reported")

    def __init__(self, clock: Clock) -> None:
        """Contain `clock`."""
        self._clock = clock
        self._reported = False

    @classmethod
    def around(cls, clock: Clock) -> Clock:
        """Return `clock` contained; the system's needs no containing."""
        return clock if type(clock) is SystemClock else cls(clock)

    def now(self) -> datetime:
        """Return the current time, aware."""
        try:
            now: Any = self._clock.now()
            if isinstance(now, datetime) and now.tzinfo is not None:
                return now
            self._report(f"now() gave no aware datetime but {type(now).__name__}")
        except Exception as error:
            self._report(type(error).__name__)
        return datetime.now(UTC)

    def _report(self, what: str) -> None:
        if not self._reported:
            self._reported = True
            structlog.get_logger("capgate").error("clock_failed", problem=what)


def steady_ids(new_id: Callable[[], str] | None) -> Callable[[str], str]:
    """Return a maker of ids with a prefix, `exe_…` and `apr_…`, that cannot fail."""

    def random(prefix: str) -> str:
        return f"{prefix}_{os.urandom(12).hex()}"

    if new_id is None:
        return random

    def contained(prefix: str) -> str:
        try:
            made: Any = new_id()
            if isinstance(made, str) and made.strip():
                return f"{prefix}_{made}"
            problem = type(made).__name__
        except Exception as error:
            problem = type(error).__name__
        structlog.get_logger("capgate").error("new_id_failed", problem=problem)
        return random(prefix)

    return contained
