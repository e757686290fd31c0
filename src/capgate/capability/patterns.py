"""Regular expressions of JSON Schema: the portable part of ECMA 262, read once.

Python's `re` and the Rust engines disagree about many corners. What they disagree about is
refused or rewritten for Python, so that a document means the same with either. And `re`
backtracks: without `jsonschema-rs`, what may take exponential time is refused.

Source: ECMA 262, regular expressions; JSON Schema Draft 2020-12, core, section 6.4.
"""

from __future__ import annotations

import re
from typing import Final

_SPACE: Final = "\\t-\\r \\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
_ANY: Final = "[^\\n\\r\\u2028\\u2029]"
_CONTROLS: Final = "tnrvf"
_MANY: Final = 1000  # more repetitions than this overflow one engine's compiled form
_TOKEN: Final = re.compile(
    r"""(?P<escape>\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.))"""
    r"""|(?P<set>\[\^?(?:\\.|[^\]\\])*\])"""
    r"""|(?P<open>\((?:\?(?:<?[=!]|:|<[A-Za-z_]\w*>))?)"""
    r"""|(?P<close>\))"""
    r"""|(?P<repeat>(?:[*+?]|\{\d+(?:,\d*)?\})\??)"""
    r"""|(?P<alternative>\|)"""
    r"""|(?P<anchor>[\^$])"""
    r"""|(?P<dot>\.)"""
    r"""|(?P<literal>[^\\()\[\]{}*+?|^$.])""",
    re.DOTALL,
)


class BadPatternError(TypeError):
    """A pattern outside the portable part, or one that may take for ever."""


class _Group:
    """What stands inside one pair of parentheses, as far as it matters for time.

    Args:
        varies: It can match in more than one way: something repeats, is optional or alternates.
        unbounded: Something in it repeats without a bound.
        open: What was read last may go on; a repeat right after it could take from it.
        before: `open`, as it was before what was read last.
    """

    __slots__ = ("before", "open", "unbounded", "varies")

    def __init__(self) -> None:
        self.varies = False
        self.unbounded = False
        self.open = False
        self.before = False

    def take(self) -> None:
        """Read one thing that stands exactly once, as far as is known yet."""
        self.before, self.open = self.open, False


class _Reading:
    """One reading of one pattern, from left to right."""

    __slots__ = ("groups", "last", "repeatable", "risky", "written")

    def __init__(self) -> None:
        self.written: list[str] = []
        self.groups = [_Group()]
        self.last: _Group | None = None
        self.repeatable = False
        self.risky = False


def translate(pattern: str, *, linear: bool) -> str:
    """Return the pattern as Python's `re` must write it to mean what ECMA 262 says.

    Args:
        pattern: The pattern as it stands in the document.
        linear: The engine that will run it takes linear time, or stops.

    Raises:
        BadPatternError: It is not portable, or may take exponential time.
    """
    reading = _Reading()
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None or token.lastgroup is None:
            raise BadPatternError(f"the pattern {pattern!r} is not portable")
        _read(reading, token.lastgroup, token.group(), pattern)
        position = token.end()
    if reading.risky and not linear:
        raise BadPatternError(
            f"the pattern {pattern!r} may take exponential time; install capgate[fast] or "
            "write it without repeating what repeats, alternates or looks around"
        )
    return _compiled(f"(?a:{''.join(reading.written)})", pattern)


def _compiled(translated: str, pattern: str) -> str:
    try:
        re.compile(translated)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadPatternError(f"the pattern {pattern!r} is not a regular expression") from error
    return translated


def _read(reading: _Reading, kind: str, text: str, pattern: str) -> None:
    write = _READERS.get(kind, _read_atom)
    if write is _read_atom:
        text = _atom(kind, text, pattern)
    write(reading, text, pattern)


def _read_atom(reading: _Reading, text: str, _pattern: str) -> None:
    reading.groups[-1].take()
    reading.last = None
    reading.repeatable = True
    reading.written.append(text)


def _read_anchor(reading: _Reading, text: str, _pattern: str) -> None:
    reading.repeatable = False
    reading.written.append("\\Z" if text == "$" else text)


def _read_open(reading: _Reading, text: str, _pattern: str) -> None:
    """Open a group; names of groups mean nothing where nothing refers back."""
    looks_around = text[-1] in "=!"
    reading.risky = reading.risky or looks_around
    reading.groups.append(_Group())
    reading.repeatable = False
    reading.written.append(text if looks_around else "(?:")


def _read_close(reading: _Reading, text: str, pattern: str) -> None:
    if len(reading.groups) == 1:
        raise BadPatternError(f"the pattern {pattern!r} is not a regular expression")
    inner = reading.groups.pop()
    outer = reading.groups[-1]
    outer.take()
    reading.risky = reading.risky or (outer.before and inner.unbounded)
    outer.open = inner.unbounded
    outer.varies = outer.varies or inner.varies
    outer.unbounded = outer.unbounded or inner.unbounded
    reading.last = inner
    reading.repeatable = True
    reading.written.append(text)


def _read_alternative(reading: _Reading, text: str, _pattern: str) -> None:
    group = reading.groups[-1]
    group.varies = True
    group.open = group.before = False
    reading.repeatable = False
    reading.written.append(text)


def _read_repeat(reading: _Reading, text: str, pattern: str) -> None:
    """Repeating what varies inside, or next to a repeat, may match in very many ways."""
    bounds = [int(bound) for bound in re.findall(r"\d+", text)]
    if not reading.repeatable or any(bound > _MANY for bound in bounds):
        raise BadPatternError(f"the pattern {pattern!r} is not portable")
    group, inner = reading.groups[-1], reading.last
    exact = len(bounds) == 1 and "," not in text
    once = text[0] == "?" or (bounds and max(bounds) <= 1 and ",}" not in text)
    unbounded = text[0] in "*+" or ",}" in text
    optional = text[0] in "?*" or (bounds and bounds[0] == 0)
    nested = inner is not None and inner.varies and not once
    reading.risky = reading.risky or nested or (unbounded and group.before)
    group.varies = group.varies or not exact
    group.unbounded = group.unbounded or unbounded
    group.open = group.open or unbounded or bool(optional and group.before)
    reading.repeatable = False
    reading.written.append(text)


_READERS: Final = {
    "repeat": _read_repeat,
    "open": _read_open,
    "close": _read_close,
    "alternative": _read_alternative,
    "anchor": _read_anchor,
}


def _atom(kind: str, text: str, pattern: str) -> str:
    if kind == "dot":
        return _ANY
    if kind == "set":
        return _set(text, pattern)
    if kind == "escape":
        return _escape(text, pattern, inside=False)
    return text


def _set(text: str, pattern: str) -> str:
    body = text[1:-1]
    negated, body = ("^", body[1:]) if body.startswith("^") else ("", body)
    if not body or re.search(r"\[|&&|--|~~|\|\|", re.sub(r"\\.", "", body)):
        raise BadPatternError(f"the pattern {pattern!r} has a set that is not portable")
    parts = re.findall(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|[^\\]", body, re.DOTALL)
    written = [_escape(p, pattern, inside=True) if p[0] == "\\" else p for p in parts]
    return f"[{negated}{''.join(written)}]"


def _escape(text: str, pattern: str, *, inside: bool) -> str:
    name = text[1]
    if name == "s":
        return _SPACE if inside else f"[{_SPACE}]"
    if name == "S" and not inside:
        return f"[^{_SPACE}]"
    if name in "dDwW" or name in _CONTROLS or len(text) > len("\\x"):
        return text
    if name.isascii() and not name.isalnum() and name.isprintable():
        return re.escape(name)
    raise BadPatternError(f"the pattern {pattern!r} has an escape that is not portable")
