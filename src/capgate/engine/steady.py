"""Clocks and ids that cannot break a call: an application's own are contained, and reported once."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from capgate.call import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable


_BYTES: Final = 12
_BATCH: Final = 256


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


class RandomIds:
    """Ids of 24 hex digits from the system's random source, read many at a time.

    The source costs a system call; the bytes of one id are used once, also across a fork.
    """

    __slots__ = ("_ids",)

    def __init__(self) -> None:
        """Start without any; the first id reads them."""
        self._ids: list[str] = []
        # A child process must not hand out what its parent has too.
        os.register_at_fork(after_in_child=self._ids.clear)

    def __call__(self, prefix: str) -> str:
        """Return a new id such as `exe_…`."""
        ids = self._ids
        if not ids:
            fresh = os.urandom(_BYTES * _BATCH).hex()
            width = 2 * _BYTES
            ids.extend(fresh[at : at + width] for at in range(0, len(fresh), width))
        return prefix + ids.pop()


def steady_ids(new_id: Callable[[], str] | None) -> Callable[[str], str]:
    """Return a maker of ids with a prefix, `exe_` or `apr_`, that cannot fail."""
    random = RandomIds()
    if new_id is None:
        return random

    def contained(prefix: str) -> str:
        try:
            made: Any = new_id()
            if isinstance(made, str) and made.strip():
                return prefix + made
            problem = type(made).__name__
        except Exception as error:
            problem = type(error).__name__
        structlog.get_logger("capgate").error("new_id_failed", problem=problem)
        return random(prefix)

    return contained
