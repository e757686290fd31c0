"""Records as lines of JSON: how one is written, read back, and found at the end of a file.

Here: the text form shared by the file sink and the chain. Not here: files kept open, hashes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, NoReturn, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from capgate.errors import JSON

_BLOCK = 64 * 1024
# str.splitlines breaks at these; JSON leaves them as they are.
_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


class Tail(NamedTuple):
    """The end of a stream of records.

    Attributes:
        record: The last whole record; None when there is none.
        torn: What an interrupted write left after it, one item a line, oldest first.
    """

    record: Mapping[str, JSON] | None
    torn: tuple[bytes, ...] = ()


def encode_line(record: Mapping[str, JSON]) -> bytes:
    """Return `record` as one line of UTF-8 JSON, its newline included.

    Raises:
        ValueError: It holds a value that JSON or UTF-8 cannot express.
        TypeError: As above.
    """
    text = json.dumps(dict(record), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if not text.isascii():
        text = text.translate(_BREAKS)
    return text.encode() + b"\n"


def parse_line(line: str | bytes) -> dict[str, JSON] | None:
    """Return the record on `line`, None when it holds no single, unambiguous JSON object."""
    try:
        text = line if isinstance(line, str) else line.decode()
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, JSON]", value) if isinstance(value, dict) else None


def read_tail(path: Path) -> Tail:
    """Return the end of the file at `path`, reading backwards no more than is needed."""
    torn: list[bytes] = []
    for line in _lines_backwards(path):
        record = parse_line(line)
        if record is not None:
            return Tail(record, tuple(reversed(torn)))
        torn.append(line)
    return Tail(None, tuple(reversed(torn)))


def ends_torn(path: Path) -> bool:
    """Tell whether the file's last line lacks its newline; never of a pipe or a device."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            return False
        file.seek(-1, 2)
        return file.read(1) != b"\n"


def _lines_backwards(path: Path) -> Iterator[bytes]:
    """Yield the file's lines that are not blank, last first."""
    with path.open("rb") as file:
        position, rest, block = file.seek(0, 2), b"", _BLOCK
        while position:
            size = min(block, position)
            position, block = position - size, block * 2
            file.seek(position)
            rest, *lines = (file.read(size) + rest).split(b"\n")
            yield from (line for line in reversed(lines) if line.strip())
        if rest.strip():
            yield rest


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key is there twice")
    return record


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
