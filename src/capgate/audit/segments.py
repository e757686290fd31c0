"""The files of a stream that rotates: the one being written, and the full ones behind it.

Here: their names, their order, their lines. Not here: writing and rotating.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def segments_of(path: str | os.PathLike[str]) -> list[Path]:
    """Return the full files of the stream at `path`, oldest first: `path.1`, `path.2` and so on."""
    return [Path(f"{os.fspath(path)}.{number}") for number in sorted(_numbers(Path(path)))]


def next_segment(path: Path) -> Path:
    """Return the name that the file being written has once it is full."""
    return Path(f"{path}.{max(_numbers(path), default=0) + 1}")


def read_jsonl(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of a whole stream, its full files first, in constant memory.

    Raises:
        OSError: A file cannot be read.
    """
    with Path(path).open("rb") as current:
        # Opened first: what becomes full meanwhile is not read twice.
        own = os.fstat(current.fileno())
        for segment in segments_of(path):
            with segment.open("rb") as file:
                if not os.path.samestat(own, os.fstat(file.fileno())):
                    yield from file
        yield from current


def _numbers(path: Path) -> Iterator[int]:
    prefix = f"{path.name}."
    for each in path.parent.iterdir():
        number = each.name.removeprefix(prefix)
        if each.name != number and number.isascii() and number.isdecimal():
            yield int(number)
