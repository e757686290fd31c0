"""Plain JSON values: telling their shapes apart, and copying them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capgate.errors import JSON


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def copy_json(value: JSON) -> JSON:
    """Return plain JSON equal to the value, sharing nothing mutable with it."""
    if type(value) in _SCALARS:
        return value
    if is_object(value):
        return {key: copy_json(member) for key, member in value.items()}
    if is_array(value):
        return [copy_json(member) for member in value]
    return value


def is_object(value: object) -> TypeGuard[Mapping[str, JSON]]:
    """Whether the value stands for a JSON object."""
    return isinstance(value, Mapping)


def is_array(value: object) -> TypeGuard[Sequence[JSON]]:
    """Whether the value stands for a JSON array."""
    return isinstance(value, list | tuple)
