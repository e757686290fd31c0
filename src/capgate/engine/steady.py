"""Clocks and ids that cannot break a call: an application's own are contained, and reported once."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from capgate.call import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


def random_ids(prefix: str) -> Callable[[], str]:
    """Return a maker of ids: the prefix and 24 hex digits from the system's random source.

    The source costs a system call, so many are read at a time. The digits of one id are used once,
    also across a fork.
    """
    pool: list[str] = []
    # A child process must not hand out what its parent has too.
    os.register_at_fork(after_in_child=pool.clear)

    def make() -> Iterator[str]:
        width = 2 * _BYTES
        while True:
            if not pool:
                fresh = os.urandom(_BYTES * _BATCH).hex()
                pool.extend(prefix + fresh[at : at + width] for at in range(0, len(fresh), width))
            yield pool.pop()

    return partial(next, make())


def steady_ids(new_id: Callable[[], str] | None, prefix: str) -> Callable[[], str]:
    """Return a maker of ids such as `exe_…` and `apr_…` that cannot fail."""
    random = random_ids(prefix)
    if new_id is None:
        return random

    def contained() -> str:
        try:
            made: Any = new_id()
            if isinstance(made, str) and made.strip():
                return prefix + made
            problem = type(made).__name__
        except Exception as error:
            problem = type(error).__name__
        structlog.get_logger("capgate").error("new_id_failed", problem=problem)
        return random()

    return contained
