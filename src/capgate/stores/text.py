"""How values stand in a database: JSON that loses nothing, and times as whole numbers."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from operator import index
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from capgate.errors import JSON

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST: Final = 512
_KEPT: Final = 200
_MOST: Final = 2**62
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


def page_size(limit: int) -> int:
    """Return a checked limit that every database can count to.

    Raises:
        TypeError: Not a whole number.
        ValueError: Below 1.
    """
    size = int(index(limit))
    if size < 1:
        raise ValueError("limit must be at least 1")
    return min(size, _MOST)


def column(text: str) -> str:
    """Return any text as one that every database takes and can have in an index.

    NUL and lone surrogates are escaped; of what is too long, the beginning and a hash are kept. No
    two texts give the same; what is plain and short stays as it is, to be read by people.
    """
    plain = text.isascii() and text.isprintable() and not text.startswith('"')
    stored = text if plain else json.dumps(text)
    if len(stored) <= _LONGEST:
        return stored
    return f'"{stored[:_KEPT]}… {sha256(stored.encode()).hexdigest()}'


def uncolumn(stored: str) -> str:
    """Return the text that `column` was given; its beginning and hash, if it was too long."""
    if not stored.startswith('"'):
        return stored
    try:
        return str(json.loads(stored))
    except ValueError:
        return stored
