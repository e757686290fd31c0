"""Regular expressions of JSON Schema: the portable part of ECMA 262, read once.

Python's `re` and the Rust engines disagree about many corners. What they disagree about is
refused or rewritten for Python, so that a document means the same with either. And `re`
backtracks: without `jsonschema-rs`, what may take exponential time is refused.

Source: ECMA 262, regular expressions; JSON Schema Draft 2020-12, core, section 6.4.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_SPACE: Final = "\\t-\\r \\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"
_ANY: Final = "[^\\n\\r\\u2028\\u2029]"
_CONTROLS: Final = "tnrvf"
_MANY: Final = 1000
_TOKEN: Final = re.compile(
    r"""(?P<escape>\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.))"""
    r"""|(?P<set>\[\^?(?:\\.|[^\]\\])*\])"""
    r"""|(?P<open>\((?:\?(?:<?[=!]|:))?)"""
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


@dataclass(slots=True)
class _Group:
    """What stands inside one pair of parentheses, as far as it matters for time."""

    opening: str = ""
    repeats: bool = False
    alternatives: bool = False
    after_repeat: bool = False
    risky: bool = False


@dataclass(slots=True)
class _Reading:
    written: list[str] = field(default_factory=list[str])
    groups: list[_Group] = field(default_factory=lambda: [_Group()])
    last: _Group | None = None
    repeatable: bool = False
    risky: bool = False


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
    if kind == "repeat":
        _read_repeat(reading, text, pattern)
        return
    if kind == "open":
        reading.groups.append(_Group(opening=text))
        reading.risky = reading.risky or text not in {"(", "(?:"}
        reading.repeatable = False
    elif kind == "close":
        _close(reading, pattern)
        text = ")"
    elif kind == "alternative":
        reading.groups[-1].alternatives = True
        reading.groups[-1].after_repeat = False
        reading.repeatable = False
    elif kind == "anchor":
        text = "\\Z" if text == "$" else text
        reading.repeatable = False
    else:
        text = _atom(kind, text, pattern)
        reading.last = None
        reading.repeatable = True
        reading.groups[-1].risky = reading.groups[-1].after_repeat
    reading.written.append(text)


def _close(reading: _Reading, pattern: str) -> None:
    if len(reading.groups) == 1:
        raise BadPatternError(f"the pattern {pattern!r} is not a regular expression")
    reading.last = reading.groups.pop()
    reading.repeatable = True


def _read_repeat(reading: _Reading, text: str, pattern: str) -> None:
    """Repeating what repeats or alternates inside may match in exponentially many ways."""
    if not reading.repeatable:
        raise BadPatternError(f"the pattern {pattern!r} is not portable")
    bounds = re.findall(r"\d+", text)
    if any(int(bound) > _MANY for bound in bounds):
        raise BadPatternError(f"the pattern {pattern!r} repeats more than {_MANY} times")
    outer, inner = reading.groups[-1], reading.last
    several = text[0] != "?" and bounds not in (["0"], ["1"])
    unbounded = text[0] in "*+" or text.rstrip("?").endswith(",}")
    if several and inner is not None and (inner.repeats or inner.alternatives):
        reading.risky = True
    if unbounded and outer.after_repeat:
        reading.risky = True
    outer.repeats = outer.repeats or several or (inner is not None and inner.repeats)
    outer.after_repeat = unbounded
    reading.repeatable = False
    reading.written.append(text)


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
