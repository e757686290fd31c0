"""Raw values before a schema sees them: what no value means, instances, and objects that lie.

A schema library asks objects for their class and their attributes. Only exact containers and
objects that answer honestly get that far; judging them is the schema's work.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pydantic

from capgate.capability.json_boundary import IMMUTABLE, NOT_JSON, NotJson

if TYPE_CHECKING:
    from collections.abc import Callable

Admit: TypeAlias = "Callable[[object], object]"


def admitting(empty: Callable[[], object], root: type | None) -> Admit:
    """Return what prepares a raw input.

    Args:
        empty: What no input at all means.
        root: The class of the whole input, if it has one; its instances are left to the schema.
    """

    def admit(raw: object) -> object:
        if raw is None:
            return empty()
        check_tame(raw)
        if root is not None and isinstance(raw, root):
            return raw
        return _members(raw)

    return admit


def _members(raw: object) -> object:
    """Return the fields of an instance: how it was made proves nothing."""
    if isinstance(raw, pydantic.BaseModel):  # the base class's own dump: overrides are not asked
        return pydantic.BaseModel.model_dump(raw, by_alias=True, warnings=False)
    if dataclasses.is_dataclass(raw) and not isinstance(raw, type):
        return {field.name: getattr(raw, field.name) for field in dataclasses.fields(raw)}
    return raw


def check_honest(raw: object) -> object:
    """Return a raw output, unless an object in it lies about its class or raises.

    Raises:
        NotJson: It is, or holds, such an object.
    """
    check_tame(raw)
    return raw


def check_tame(value: object) -> None:
    """Refuse an object that lies about its class, or raises when asked for it.

    Schema libraries ask; what such an object answers must not reach a log or a warning.

    Raises:
        NotJson: The value, or something in its containers, is such an object.
    """
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind in IMMUTABLE or id(item) in seen:  # a cycle is for the schema to refuse
            continue
        seen.add(id(item))
        if kind is dict:
            waiting.extend(cast("dict[object, object]", item).values())
        elif kind in {list, tuple, set, frozenset}:
            waiting.extend(cast("list[object]", item))
        elif not _is_tame(item):
            raise NotJson(NOT_JSON)


def _is_tame(item: object) -> bool:
    try:
        return item.__class__ is type(item)
    except Exception:
        return False


def holds_instance(raw: Any) -> bool:
    """Tell whether a value is an instance, or a container with an instance right inside."""
    if type(raw) is dict:
        return any(map(_is_instance, cast("dict[object, object]", raw).values()))
    if type(raw) in {list, tuple}:
        return any(map(_is_instance, cast("list[object]", raw)))
    return _is_instance(raw)


def _is_instance(value: object) -> bool:
    return isinstance(value, pydantic.BaseModel) or dataclasses.is_dataclass(value)
