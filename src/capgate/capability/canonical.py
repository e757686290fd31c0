"""Canonical JSON, its hash, and the strict reader of JSON text.

The canonical form is RFC 8785 in every byte, except that integers of any size are written as
their exact decimal digits. Strings and floating point numbers are written by the `rfc8785`
package: number formatting is not done again here.

Source: RFC 8785, JSON Canonicalization Scheme; RFC 8259, JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Final, Never

import rfc8785

from capgate.capability.json_boundary import (
    DEFAULT_DEPTH,
    NOT_JSON,
    NotJson,
    capture,
    check_text,
    type_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from capgate.errors import JSON

DEFAULT_MAX_BYTES: Final = 10 * 1024 * 1024

_TOO_DEEP: Final = "Nested too deeply, or refers to itself."
_SHORT_INT: Final = 10**18


def canonical_json(value: JSON) -> bytes:
    """Return the canonical form of a JSON value.

    Raises:
        NotJson: A `ValueError`: the value has no canonical form (not JSON, not finite, a lone
            surrogate, a key that is no str, cyclic or nested beyond what can be written).
    """
    try:
        return _write(value).encode()
    except NotJson:
        raise
    except UnicodeEncodeError as error:
        raise NotJson("Text must be encodable as UTF-8.") from error
    except RecursionError as error:
        raise NotJson(_TOO_DEEP) from error
    except Exception as error:  # a class that breaks when it is looked up
        raise NotJson(NOT_JSON) from error


def input_hash(value: JSON) -> str:
    """Return the SHA-256 of the canonical form, in lower-case hex.

    Raises:
        NotJson: As for `canonical_json`.
    """
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _write(value: JSON) -> str:
    kind = type_of(value)
    writer = _WRITERS.get(kind)
    if writer is not None:
        return writer(value)
    # What a subclass holds is read past its methods, which are user code.
    if issubclass(kind, dict):
        return _write_object(dict(_members_of(value)))
    if issubclass(kind, list):
        return _write_array(_items_of(value))
    raise NotJson(NOT_JSON)


def _write_object(value: dict[str, JSON]) -> str:
    for key in value:
        if type(key) is not str:
            raise NotJson("Object keys must be strings.")
    plain = "".join(value).isascii()
    # By UTF-16 code units: code points order some emoji differently.
    members: list[str] = []
    for key in sorted(value) if plain else sorted(value, key=_sort_key):
        member = value[key]
        # Every call that is hashed is written here: one step less for what is not nested.
        write = _WRITERS.get(type_of(member), _write)
        members.append(f"{encode_basestring(key)}:{write(member)}")
    return "{" + ",".join(members) + "}"


def _write_array(value: list[JSON]) -> str:
    return "[" + ",".join([_write(item) for item in value]) + "]"


def _sort_key(key: str) -> bytes:
    return key.encode("utf-16-be")


def _write_int(value: int) -> str:
    if -_SHORT_INT < value < _SHORT_INT:
        return int.__repr__(value)
    return str(Decimal(value))  # exact, and free of the limit str(int) has on digits


def _write_float(value: float) -> str:
    if not math.isfinite(value):
        raise NotJson("Must be a finite number.")
    return rfc8785.dumps(value).decode()


def _write_bool(value: JSON) -> str:
    return "true" if value else "false"


def _write_null(_value: None) -> str:
    return "null"


_members_of: Final[Callable[[dict[str, JSON]], Iterable[tuple[str, JSON]]]] = vars(dict)["items"]
_items_of: Final[Callable[[list[JSON]], list[JSON]]] = vars(list)["copy"]

_WRITERS: Final[dict[type, Callable[[JSON], str]]] = {
    str: encode_basestring,
    int: _write_int,
    float: _write_float,
    bool: _write_bool,
    type(None): _write_null,
    dict: _write_object,
    list: _write_array,
}


def parse_json(
    data: bytes | str, *, max_bytes: int = DEFAULT_MAX_BYTES, max_depth: int = DEFAULT_DEPTH
) -> JSON:
    """Read JSON text strictly.

    Args:
        data: UTF-8 bytes, or text; no byte order mark.
        max_bytes: The longest text that is read at all.
        max_depth: How many containers may stand inside one another.

    Raises:
        NotJson: A `ValueError`: the text is not JSON, not UTF-8, too long or too deep, has a
            duplicate key, a number that is not finite, or a lone surrogate. It never quotes it.
    """
    text = _decode(data, max_bytes)
    _check_depth(text, max_depth)
    try:
        value: JSON = _DECODER.decode(text)
    except NotJson:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJson("Not valid JSON.") from error
    # Only an escape can still hide a lone surrogate: the text itself was decoded.
    return capture(value, max_depth) if "\\u" in text else value


def _decode(data: bytes | str, max_bytes: int) -> str:
    if len(data) > max_bytes:
        raise NotJson("Longer than allowed.")
    if isinstance(data, str):
        check_text(data)
        return data
    try:
        return bytes(data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJson("Not valid UTF-8.") from error


def _check_depth(text: str, max_depth: int) -> None:
    """Refuse deep text before the recursive reader sees it; what is inside strings is no depth."""
    # Counting is fast and almost always enough; only text with many brackets is read by character.
    if text.count("[") + text.count("{") <= max_depth:
        return
    depth, quoted, escaped = 0, False, False
    for character in text:
        if quoted:
            escaped, quoted = character == "\\" and not escaped, escaped or character != '"'
        elif character == '"':
            quoted = True
        elif character in "[{":
            depth += 1
            if depth > max_depth:
                raise NotJson(_TOO_DEEP)
        elif character in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotJson("An object has the same key twice.")
    return members


def _constant(_name: str) -> Never:
    raise NotJson("Must be a finite number.")


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise NotJson("Must be a finite number.")
    return number


_DECODER: Final = json.JSONDecoder(
    parse_constant=_constant, parse_float=_float, object_pairs_hook=_unique
)
