"""Names that callers pass: an exact `str`, or one that behaves like it."""

from __future__ import annotations

from typing import cast


def plain(value: object) -> str | None:
    """Return a text as an exact `str`, or None for what is no text.

    A subclass that is its text, such as a member of a `StrEnum`, is taken; one that brings a
    comparison of its own is not: it could be one name here and another there.
    """
    kind = type(value)
    if kind is str:
        return cast("str", value)
    own = issubclass(kind, str) and kind.__eq__ is str.__eq__ and kind.__hash__ is str.__hash__
    return str.__str__(cast("str", value)) if own else None
