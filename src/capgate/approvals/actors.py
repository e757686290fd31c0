"""An actor as plain JSON and back, without loss: a store keeps actors as text.

Only the two directions live here; what an actor is, `capgate.call` says.
"""

from __future__ import annotations

import base64
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from uuid import UUID

from capgate.approvals.plain import is_array, is_object
from capgate.call import Actor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from capgate.errors import JSON

# A one-key object with this prefix stands for a value that JSON does not have.
_TAG: Final = "$"


def recapture(claimed: object) -> Actor:
    """Return a checked actor that shares nothing mutable with the one given.

    Raises:
        TypeError: Not an `Actor`, or one that was tampered with.
        Exception: Whatever reading it raised.
    """
    if type(claimed) is not Actor:
        raise TypeError("an Actor is needed")
    return Actor(
        claimed.id,
        claimed.kind,
        display_name=claimed.display_name,
        permissions=claimed.permissions,
        attributes=claimed.attributes,
    )


def dump_actor(actor: Actor) -> dict[str, JSON]:
    """Return the actor as plain JSON.

    Raises:
        TypeError: An attribute is of a kind that cannot be written down and read back.
    """
    return {
        "id": actor.id,
        "kind": actor.kind,
        "display_name": actor.display_name,
        "permissions": sorted(actor.permissions),
        "attributes": {name: _dump(name, value) for name, value in actor.attributes.items()},
    }


def restore_actor(data: Mapping[str, JSON]) -> Actor:
    """Return the actor that `dump_actor` wrote.

    Raises:
        KeyError, TypeError, ValueError: The data is not what `dump_actor` writes.
    """
    return Actor(
        data["id"],
        data["kind"],
        display_name=data["display_name"],
        permissions=data["permissions"],
        attributes={name: _restore(value) for name, value in data["attributes"].items()},
    )


def _dump(name: str, value: object) -> JSON:
    kind = type(value)
    if value is None or kind in {str, int, bool}:
        return value
    if isinstance(value, str | int):
        # A member of a StrEnum or IntEnum comes back as the plain value that it equals.
        return str.__str__(value) if isinstance(value, str) else int(value)
    if kind is list:
        return _members(name, value)
    if kind is dict:
        return _dump_mapping(name, value)
    tag = _TAG_OF.get(kind)
    if tag is None:
        raise TypeError(f"actor attribute {name!r} cannot be stored: it holds a {kind.__name__}")
    return {_TAG + tag: _WRITE[tag](name, value)}


def _dump_mapping(name: str, value: JSON) -> JSON:
    if not all(type(key) is str for key in value):
        raise TypeError(f"actor attribute {name!r} cannot be stored: a key is not a str")
    plain = {str(key): _dump(name, member) for key, member in value.items()}
    ambiguous = len(plain) == 1 and next(iter(plain)).startswith(_TAG)
    return {_TAG + "dict": [list(pair) for pair in plain.items()]} if ambiguous else plain


def _members(name: str, value: JSON) -> list[JSON]:
    return [_dump(name, member) for member in value]


def _unordered(name: str, value: JSON) -> list[JSON]:
    # Sets have no order; their text must have one, or equal actors would hash apart.
    return sorted(_members(name, value), key=repr)


_WRITE: Final[Mapping[str, Callable[[str, JSON], JSON]]] = {
    "float": lambda _, value: repr(value),
    "tuple": _members,
    "set": _unordered,
    "frozenset": _unordered,
    "decimal": lambda _, value: str(value),
    "datetime": lambda _, value: value.isoformat(),
    "date": lambda _, value: value.isoformat(),
    "uuid": lambda _, value: str(value),
    "bytes": lambda _, value: base64.b64encode(value).decode("ascii"),
}
_TAG_OF: Final[Mapping[type[object], str]] = {
    float: "float",
    tuple: "tuple",
    set: "set",
    frozenset: "frozenset",
    Decimal: "decimal",
    datetime: "datetime",
    date: "date",
    UUID: "uuid",
    bytes: "bytes",
}
_READ: Final[Mapping[str, Callable[[JSON], object]]] = {
    "dict": lambda pairs: {key: _restore(member) for key, member in pairs},
    "float": float,
    "tuple": lambda members: tuple(map(_restore, members)),
    "set": lambda members: set(map(_restore, members)),
    "frozenset": lambda members: frozenset(map(_restore, members)),
    "decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "uuid": UUID,
    "bytes": lambda text: base64.b64decode(text, validate=True),
}


def _restore(value: JSON) -> object:
    if is_array(value):
        return [_restore(member) for member in value]
    if not is_object(value):
        return value
    if len(value) == 1:
        ((key, member),) = value.items()
        if key.startswith(_TAG):
            return _READ[key.removeprefix(_TAG)](member)
    return {key: _restore(member) for key, member in value.items()}
