"""Any value as plain, interoperable JSON, without ever raising.

Here: the fallbacks for what has no JSON form. Not here: canonical bytes, and the strict
boundary of inputs and outputs, which refuses where this module falls back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, cast
from uuid import UUID

from capgate.errors import contained

if TYPE_CHECKING:
    from capgate.errors import JSON

_MAX_DEPTH = 64
_MAX_NODES = 10_000
_MAX_EXACT = 2**53 - 1
"""Source: RFC 8785, section 3.2.2.3: larger integers do not survive a JSON reader."""


def to_plain(value: object) -> JSON:
    """Return `value` as str, int, float, bool, None, list and dict.

    Times become ISO 8601 in UTC, sets sorted lists, integers over 53 bits decimal text. What has
    no JSON form, is too deep or contains itself becomes a marker such as `"<type name>"`: never
    its `repr`, which could show a secret.
    """
    return _Walk().plain(value)


class _Walk:
    """One conversion: what is on the path (cycles) and how much was visited (blow-up)."""

    __slots__ = ("_nodes", "_path")

    def __init__(self) -> None:
        self._path: list[int] = []
        self._nodes = 0

    def plain(self, value: object) -> JSON:
        if value is None or type(value) is bool or (type(value) is str and value.isascii()):
            return value
        # A hostile object must not break the evidence around it.
        plain = contained(lambda: self._scalar(value))
        return "<unreadable>" if plain is None else plain

    def _scalar(self, value: object) -> JSON:
        for kind, convert in _SCALARS:
            if isinstance(value, kind):
                return convert(value)
        return self._container(value)

    def _container(self, value: object) -> JSON:
        if isinstance(value, Enum):
            return self.plain(value.value)
        if not isinstance(value, Mapping | list | tuple | set | frozenset):
            return f"<{_text(type(value).__name__)}>"
        return self._enter(cast("Mapping[object, object] | Iterable[object]", value))

    def _enter(self, value: Mapping[object, object] | Iterable[object]) -> JSON:
        self._nodes += 1
        if id(value) in self._path or len(self._path) >= _MAX_DEPTH or self._nodes > _MAX_NODES:
            return "<too deep>"
        self._path.append(id(value))
        try:
            return self._items(value)
        finally:
            self._path.pop()

    def _items(self, value: Mapping[object, object] | Iterable[object]) -> JSON:
        if isinstance(value, Mapping):
            fields = cast("Mapping[object, object]", value)
            return {_key(self.plain(key)): self.plain(item) for key, item in fields.items()}
        items = [self.plain(item) for item in value]
        return sorted(items, key=str) if isinstance(value, set | frozenset) else items


def _key(plain: JSON) -> str:
    return plain if type(plain) is str else str(plain)


def _text(value: str) -> str:
    text = str.__str__(value)
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _integer(value: int) -> JSON:
    exact = int.__index__(value)
    if -_MAX_EXACT <= exact <= _MAX_EXACT:
        return exact
    return str(exact) if exact.bit_length() < _MAX_NODES else "<int>"


def _float(value: float) -> JSON:
    return float.__float__(value) if math.isfinite(value) else float.__repr__(value)


def _datetime(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


_SCALARS: tuple[tuple[type, Callable[..., JSON]], ...] = (
    (str, _text),
    (int, _integer),
    (float, _float),
    (datetime, _datetime),
    (date, date.isoformat),
    (UUID, UUID.__str__),
    (Decimal, Decimal.__str__),
)
