"""The lossless JSON boundary: what is JSON, copied so that nothing is shared.

Exact types only. A subclass, a proxy or an object that lies about its class is never asked
anything: its attributes, keys and iterators are user code. Schemas are judged elsewhere.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Never, TypeAlias, TypeGuard, cast

from pydantic_core import to_jsonable_python

if TYPE_CHECKING:
    from capgate.call import Argument
    from capgate.errors import JSON

DEFAULT_DEPTH: Final = 64

Path: TypeAlias = tuple[str | int, ...]
Foreign: TypeAlias = Callable[[object], object]

IMMUTABLE: Final[frozenset[type]] = frozenset({str, int, float, bool, type(None), bytes, complex})

NOT_JSON: Final = "Not a JSON value."
_NOT_FINITE: Final = "Must be a finite number."
_NOT_UNICODE: Final = "Text must be encodable as UTF-8."
_NOT_STR_KEY: Final = "Object keys must be strings."
_TOO_DEEP: Final = "Nested too deeply, or refers to itself."


RULES: Final = frozenset({NOT_JSON, _NOT_FINITE, _NOT_UNICODE, _NOT_STR_KEY, _TOO_DEEP})


class NotJson(ValueError):
    """A value that JSON cannot carry; `path` leads to it and `message` names the rule."""

    def __init__(self, message: str, path: Path = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path


def capture(value: object, max_depth: int = DEFAULT_DEPTH) -> JSON:
    """Return a copy of a JSON value that shares no container with it.

    Args:
        value: What should be JSON: exact dict, list, str, int, float, bool or None.
        max_depth: How many containers may stand inside one another.

    Raises:
        NotJson: The value, or something in it, is not JSON, is nested too deeply or cyclic.
    """
    try:
        return _capture(value, max_depth, _refuse)
    except RecursionError as error:
        raise NotJson(_TOO_DEEP) from error


def to_json(value: object, max_depth: int = DEFAULT_DEPTH) -> JSON:
    """Return a value's JSON form, as `capture` does, where pydantic knows how to write it.

    Raises:
        NotJson: It has none.
    """
    try:
        return _capture(value, max_depth, _write)
    except RecursionError as error:
        raise NotJson(_TOO_DEEP) from error


def _refuse(_value: object) -> Never:
    raise NotJson(NOT_JSON)


def _write(value: object) -> object:
    if hasattr(type(value), "__next__"):  # writing an iterator would use it up, or never end
        raise NotJson(NOT_JSON)
    try:
        written: object = to_jsonable_python(value)
    except Exception as error:
        raise NotJson(NOT_JSON) from error
    return written


def _capture(value: object, room: int, foreign: Foreign) -> JSON:
    kind = type(value)
    if kind is str:
        return check_text(cast("str", value))
    if kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return _finite(cast("float", value))
    if kind is not dict and kind is not list:
        return _capture(foreign(value), room, _refuse)
    if not room:
        raise NotJson(_TOO_DEEP)
    if kind is list:
        return _capture_array(cast("list[object]", value), room - 1, foreign)
    return _capture_object(cast("dict[object, object]", value), room - 1, foreign)


def _capture_array(items: list[object], room: int, foreign: Foreign) -> list[JSON]:
    captured: list[JSON] = []
    for item in items:
        try:
            copied = _capture(item, room, foreign)
        except NotJson as error:
            # The path is put together on the way out, so that good values pay nothing for it.
            error.path = (len(captured), *error.path)
            raise
        captured.append(copied)
    return captured


def _capture_object(members: dict[object, object], room: int, foreign: Foreign) -> dict[str, JSON]:
    captured: dict[str, JSON] = {}
    for key, item in members.items():
        if type(key) is not str:
            raise NotJson(_NOT_STR_KEY)
        try:
            captured[check_text(key)] = _capture(item, room, foreign)
        except NotJson as error:
            error.path = (key, *error.path)
            raise
    return captured


def check_text(text: str) -> str:
    """Return the text, unless it has a lone surrogate.

    Raises:
        NotJson: The text is not encodable as UTF-8.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise NotJson(_NOT_UNICODE) from error
    return text


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise NotJson(_NOT_FINITE)
    return number


def is_object(value: JSON) -> TypeGuard[dict[str, JSON]]:
    """Tell whether JSON is an object."""
    return isinstance(value, dict)


def is_array(value: JSON) -> TypeGuard[list[JSON]]:
    """Tell whether JSON is an array."""
    return isinstance(value, list)


def is_tuple(value: Argument) -> TypeGuard[tuple[Argument, ...]]:
    """Tell whether a value is a tuple."""
    return isinstance(value, tuple)


def type_of(value: object) -> type:
    """Return a value's exact type, whatever it says about its class."""
    return type(value)


def snapshot(value: Argument) -> Argument:
    """Return a copy of a validated value that shares nothing mutable with it.

    Raises:
        Exception: Whatever copying an object of an author's own type raises.
    """
    kind = type_of(value)
    if kind in IMMUTABLE:
        return value
    if kind is dict:
        return {snapshot(key): snapshot(item) for key, item in value.items()}
    if kind is list:
        return [snapshot(item) for item in value]
    return copy.deepcopy(value)
