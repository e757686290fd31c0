"""Wall time that a test moves by hand. Deadlines do not use it: they use the event loop's clock."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_AMOUNT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)", re.ASCII)
START: Final = "2026-01-01T00:00:00Z"


class FakeClock:
    """A `Clock` that stands still until `advance`.

    Args:
        start: An aware datetime, or one as ISO 8601 text with an offset.

    Raises:
        TypeError: The start is neither.
        ValueError: The start is no date, or has no offset.
    """

    __slots__ = ("_now",)

    def __init__(self, start: str | datetime = START) -> None:
        """See the class."""
        self._now = _instant(start)

    def now(self) -> datetime:
        """Return the time it stands at, aware."""
        return self._now

    def advance(self, by: str | float | timedelta) -> datetime:
        """Move on and return the new time; nothing waits and nothing is run.

        Args:
            by: Seconds, a timedelta, or a number with a unit: `500ms`, `30s`, `15m`, `2h`, `1d`.

        Raises:
            TypeError: None of these.
            ValueError: Unreadable, negative, not finite, or past the last date there is.
        """
        step = _duration(by)
        if step < timedelta(0):
            raise ValueError("a clock cannot be moved back")
        try:
            self._now += step
        except OverflowError as error:
            raise ValueError("a clock cannot be moved past the year 9999") from error
        return self._now

    def __repr__(self) -> str:
        return f"FakeClock({self._now.isoformat()!r})"


def _instant(start: object) -> datetime:
    at = datetime.fromisoformat(start) if isinstance(start, str) else start
    if not isinstance(at, datetime):
        raise TypeError(f"start must be a datetime or ISO 8601 text, got {type(start).__name__}")
    if at.utcoffset() is None:
        raise ValueError("start needs an offset from UTC, as in '2026-01-01T00:00:00Z'")
    return at


def _duration(by: object) -> timedelta:
    if isinstance(by, timedelta):
        return by
    if isinstance(by, str):
        return _parsed(by)
    if isinstance(by, bool) or not isinstance(by, int | float):
        raise TypeError(f"advance takes seconds, a timedelta or text, got {type(by).__name__}")
    return _times(by, _UNITS["s"])


def _parsed(text: str) -> timedelta:
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"no duration: {text!r}; write 500ms, 30s, 15m, 2h or 1d")
    return _times(float(found[1]), _UNITS[found[2]])


def _times(amount: float, unit: timedelta) -> timedelta:
    try:
        return amount * unit
    except (OverflowError, ValueError) as error:
        raise ValueError(f"no duration: {amount}") from error
