"""The files of a stream that rotates: the one being written, and the full ones behind it.

Here: their names, their order, their lines. Not here: writing and rotating.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

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

    A writer may put files aside meanwhile; whoever trims makes readers begin again.

    Raises:
        OSError: A file cannot be read, or there is none.
    """
    segments, current = _opened(Path(path))
    try:
        for segment in segments:
            with segment.open("rb") as file:
                yield from file
        if current is not None:
            yield from current
    finally:
        if current is not None:
            current.close()


def _opened(path: Path) -> tuple[list[Path], BinaryIO | None]:
    """Return the full files and the open current one, as they stood at one moment."""
    while True:
        before = segments_of(path)
        try:
            current = path.open("rb")
        except FileNotFoundError:
            if not before:
                raise
            current = None  # just put aside
        if segments_of(path) == before:
            return before, current
        if current is not None:
            current.close()


def _numbers(path: Path) -> Iterator[int]:
    prefix = f"{path.name}."
    for each in path.parent.iterdir():
        number = each.name.removeprefix(prefix)
        plain = each.name != number and number.isascii() and number.isdecimal()
        # Of another's making, but alike: one with a leading zero, or a folder.
        if plain and number == str(int(number)) and each.is_file():
            yield int(number)
