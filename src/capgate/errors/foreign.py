"""Contact with foreign objects: running their code, and copying their data as plain JSON.

Nothing here knows what an error means. Whatever a foreign object does, it ends in a plain value
or in None; only the two interrupts that a signal may deliver at any time go through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, cast

JSON: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, or a list or dict (with str keys) of these."""

T = TypeVar("T")

MAX_DEPTH: Final = 64

_EXITS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
# The member of the builtin itself: a subclass cannot answer for its leaves.
members_of: Final[Callable[[BaseException], tuple[BaseException, ...]]] = vars(BaseExceptionGroup)[
    "exceptions"
].__get__


def contained(read: Callable[[], T]) -> T | None:
    """Run synchronous foreign code; None when it raised, be it a cancellation that it made up."""
    try:
        return read()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # whatever foreign code raises means "not readable"
        return None


def leaves_of(raised: BaseException) -> list[BaseException]:
    """What was raised, or, of a group, everything in it and in the groups inside it."""
    leaves: list[BaseException] = []
    pending = [raised]
    while pending:
        current = pending.pop()
        if issubclass(type(current), BaseExceptionGroup):
            pending.extend(members_of(current))
        else:
            leaves.append(current)
    return leaves


def is_exit(raised: BaseException) -> bool:
    """Tell whether `raised` must leave the process untouched, a group's leaf included.

    The real type is asked: an object of foreign code may lie about its class, or raise when read.
    """
    if not issubclass(type(raised), BaseExceptionGroup):
        return issubclass(type(raised), _EXITS)
    return any(issubclass(type(leaf), _EXITS) for leaf in leaves_of(raised))


def plain_text(value: object) -> str | None:
    """The exact `str` of a text that UTF-8 can carry, without calling the value's own methods."""
    if not issubclass(type(value), str):
        return None
    text = str.__str__(cast("str", value))
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    return text


def json_copy(value: object, depth: int = 0) -> JSON:
    """Copy JSON-like data (mappings and tuples included) as plain JSON.

    Raises:
        ValueError: it has no JSON form: other types, NaN, lone surrogates, too deep, not finite.
    """
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if issubclass(kind, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {_text(key): json_copy(item, depth + 1) for key, item in items}
    if issubclass(kind, list | tuple):
        return [json_copy(item, depth + 1) for item in cast("Iterable[object]", value)]
    return _number(value) if issubclass(kind, int | float) else _text(value)


def _text(value: object) -> str:
    text = plain_text(value)
    if text is None:
        raise ValueError("not text")
    return text


def _number(value: object) -> int | float:
    if issubclass(type(value), int):
        number = int.__int__(cast("int", value))
        # A number of more digits than the interpreter prints would break json.dumps later.
        int.__repr__(number)
        return number
    real = float.__float__(cast("float", value))
    if not math.isfinite(real):
        raise ValueError("not finite")
    return real
