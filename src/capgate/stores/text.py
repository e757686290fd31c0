"""How values stand in a database: JSON that loses nothing, and times as whole numbers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from capgate.errors import JSON

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)


def dump(value: JSON) -> str:
    """Return plain JSON as ASCII text that `load` reads back as it was.

    Not the canonical form, in which 1.0 is 1: what comes back must be what went in.
    """
    try:
        return json.dumps(value)
    except ValueError:  # an integer of more digits than Python converts by default
        return _dump_all(value)


def _dump_all(value: JSON) -> str:
    if isinstance(value, dict):
        members = cast("dict[str, JSON]", value).items()
        parts = [f"{json.dumps(key)}:{_dump_all(member)}" for key, member in members]
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join([_dump_all(each) for each in cast("list[JSON]", value)]) + "]"
    return str(Decimal(value)) if type(value) is int else json.dumps(value)


def load(text: str) -> JSON:
    """Return what `dump` wrote.

    Raises:
        ValueError: Not JSON.
    """
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int:
    return int(Decimal(digits))


def ticks(moment: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - _EPOCH) // _TICK


def moment(at: int) -> datetime:
    """Return the time that `ticks` wrote."""
    return _EPOCH + at * _TICK


def storable(text: str) -> bool:
    """Tell whether a text can be asked for at all: one with a lone surrogate was never stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
