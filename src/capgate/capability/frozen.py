"""Deep-frozen JSON: plain `dict` and `list` to every reader, immutable to every writer.

They are subclasses, so they compare, iterate and `json.dumps` like the containers they were made
from. A deep copy of one is ordinary mutable JSON again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Never

from capgate.capability.json_boundary import is_array, is_object

if TYPE_CHECKING:
    from capgate.errors import JSON


class FrozenDict(dict[str, Any]):
    """A read-only JSON object."""

    __slots__ = ()

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> JSON:
        return thaw(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (FrozenDict, (dict(self),))


class FrozenList(list[Any]):
    """A read-only JSON array."""

    __slots__ = ()

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> JSON:
        return thaw(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (FrozenList, (list(self),))


_WRITERS: Final = {
    FrozenDict: "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update",
    FrozenList: "__setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop remove "
    "reverse sort",
}


def _refuse(self: object, *_args: object, **_kwargs: object) -> Never:
    raise TypeError(f"{type(self).__name__} is read-only; copy.deepcopy() gives a mutable one")


for _kind, _names in _WRITERS.items():
    for _name in _names.split():
        setattr(_kind, _name, _refuse)


def freeze(value: JSON) -> JSON:
    """Return JSON whose containers are all read-only; a copy, whatever was given."""
    if isinstance(value, str):  # most of a document is text
        return value
    if is_object(value):
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if is_array(value):
        return FrozenList([freeze(item) for item in value])
    return value


def thaw(value: JSON) -> JSON:
    """Return an ordinary mutable copy of JSON."""
    if is_object(value):
        return {key: thaw(item) for key, item in value.items()}
    if is_array(value):
        return [thaw(item) for item in value]
    return value
