"""Clocks, ids and jitter that cannot break a call: an application's own are contained."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from capgate.call import Clock, SystemClock, at_fork, log
from capgate.errors import is_exit
from capgate.pipeline import full_jitter

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_BYTES: Final = 12
_BATCH: Final = 256


def _asked(source: Callable[[], T], fits: Callable[[T], bool]) -> tuple[T | None, str]:
    """Return what a source of the application gave, or None and what was wrong with it."""
    try:
        answer = source()
        return (answer, "") if fits(answer) else (None, type(answer).__name__)
    except BaseException as error:
        if is_exit(error):
            raise
        return None, type(error).__name__


class SteadyClock:
    """Another clock, replaced by the system's for as long as it fails; that is reported once."""

    __slots__ = ("_now", "_reported")

    def __init__(self, clock: Clock) -> None:
        """Contain `clock`."""
        self._now = clock.now
        self._reported = False

    @classmethod
    def around(cls, clock: Clock) -> Clock:
        """Return `clock` contained; the system's needs no containing."""
        return clock if isinstance(clock, SystemClock) else cls(clock)

    def now(self) -> datetime:
        """Return the current time, aware."""
        now, problem = _asked(self._now, _is_aware)
        if now is not None:
            return now
        if not self._reported:
            self._reported = True
            log("clock_failed", problem=problem)
        return datetime.now(UTC)


def _is_aware(now: object) -> bool:
    return isinstance(now, datetime) and now.utcoffset() is not None


def random_ids(prefix: str) -> Callable[[], str]:
    """Return a maker of ids: the prefix and 24 hex digits from the system's random source.

    The source costs a system call, so many are read at a time. The digits of one id are used once,
    also across a fork.
    """
    pool: list[str] = []
    take = pool.pop
    # A child process must not hand out what its parent has too.
    at_fork(in_child=pool.clear)

    def make() -> str:
        while True:
            try:
                return take()
            except IndexError:
                fresh = os.urandom(_BYTES * _BATCH).hex(" ", _BYTES)
                pool.extend((prefix + fresh.replace(" ", f" {prefix}")).split(" "))

    return make


def steady_ids(new_id: Callable[[], str] | None, prefix: str) -> Callable[[], str]:
    """Return a maker of ids such as `exe_…` and `apr_…` that cannot fail."""
    random = random_ids(prefix)
    if new_id is None:
        return random

    def contained() -> str:
        made, problem = _asked(new_id, _is_text)
        if made is not None:
            return prefix + str.__str__(made)
        log("new_id_failed", problem=problem)
        return random()

    return contained


def _is_text(made: object) -> bool:
    return isinstance(made, str) and bool(made.strip())


def steady_jitter(jitter: Callable[[], float]) -> Callable[[], float]:
    """Return the share of a back-off to wait, from 0 to 1, from a source that cannot fail."""
    if jitter is full_jitter:
        return jitter

    def contained() -> float:
        share, problem = _asked(jitter, _is_share)
        if share is not None:
            return float(share)
        log("jitter_failed", problem=problem)
        return full_jitter()

    return contained


def _is_share(share: object) -> bool:
    return isinstance(share, int | float) and 0 <= share <= 1
