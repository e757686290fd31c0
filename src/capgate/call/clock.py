"""Wall time and durations. Deadlines do not use this clock: they use the event loop's."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeAlias

Duration: TypeAlias = float | timedelta


class Clock(Protocol):
    """Wall time for expiry, timestamps and idempotency."""

    def now(self) -> datetime:
        """Return the current time, aware."""
        ...


class SystemClock:
    """The machine's own clock, in UTC."""

    __slots__ = ()

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(UTC)


def to_seconds(value: object, what: str) -> float:
    """Return a duration as seconds.

    Args:
        value: Seconds, or a `timedelta`; finite and greater than 0.
        what: The setting's name, for the message.

    Raises:
        TypeError: Not a duration; `True` is none.
    """
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = _as_float(value)
    else:
        raise TypeError(f"{what} must be seconds or a timedelta, got {type(value).__name__}")
    if not (math.isfinite(seconds) and seconds > 0):
        raise TypeError(f"{what} must be finite and greater than 0")
    return seconds


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
