"""The sink that appends events to a file, one JSON object a line.

Here: the open file, its last, maybe torn, line, and what happens when it is full. Not here: the
names of full files, chaining.
"""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from capgate.audit.lines import Tail, encode_line, ends_torn, read_tail
from capgate.audit.segments import next_segment, read_jsonl, segments_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from capgate.audit.event import AuditEvent
    from capgate.errors import JSON

_log = structlog.get_logger("capgate")
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
_OWNER_ONLY = 0o600


class JsonlAudit:
    """Appends each event to a file as one line of UTF-8 JSON, handed to the system at once.

    A line that a crash left torn is logged as `audit_torn_line` and stays; the next record starts
    on a line of its own. Writing happens in place, so a slow disk slows the calls.

    Args:
        path: The file; created (readable by its owner only) when missing, its folder is not.
        fsync: Wait until each line is on the disk: survives a power cut, costs milliseconds.
        max_bytes: How large the file may grow before it is put aside as `path.1`, `path.2` and so
            on, the oldest first; a chain goes on through them. One process at a time then writes
            it. None: as large as it gets.

    Raises:
        OSError: The file cannot be opened for writing.
        TypeError, ValueError: `max_bytes` is no positive int.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        fsync: bool = False,
        max_bytes: int | None = None,
    ) -> None:
        # Wherever the process goes, and whatever links to it: files are put aside beside it.
        self._path = Path(os.path.realpath(path))
        self._fsync = fsync
        self._max_bytes = None if max_bytes is None else _positive(max_bytes)
        # Reentrant: the collector may close an abandoned call, and audit it, during a write.
        self._lock = threading.RLock()
        self._closed = self._warned = False
        self._open()
        self._torn = ends_torn(self._path)
        if self._torn:
            _log.warning("audit_torn_line", path=str(self._path))

    def _open(self) -> None:
        self._fd = os.open(self._path, _FLAGS, _OWNER_ONLY)
        self._closing = weakref.finalize(self, os.close, self._fd)
        self._closing.atexit = False

    def __call__(self, event: AuditEvent) -> None:
        """Append `event`."""
        self.write(event.to_dict())

    def write(self, record: Mapping[str, JSON]) -> None:
        """Append one record.

        Raises:
            OSError: It was not written, or only in part; the next one starts on a new line.
            ValueError: The sink is closed, or the record is not JSON.
        """
        line = encode_line(record)
        with self._lock:
            if self._closed:
                raise ValueError("the audit file is closed")
            if not self._closing.alive:
                self._open()  # it could not be when it was rotated
            if self._max_bytes is not None and self._is_full(len(line), self._max_bytes):
                self._rotate()
            whole = b"\n" + line if self._torn else line
            self._torn = True
            _write_all(self._fd, whole)
            self._torn = False
            if self._fsync:
                os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; without it, that happens when the sink is no longer used."""
        with self._lock:
            self._closed = True
            self._closing()

    def tail(self) -> Tail:
        """Return the last whole record of the stream, and what a torn write left after it."""
        torn: tuple[bytes, ...] = ()
        with self._lock:
            for path in self._newest_first():
                record, rest = read_tail(path)
                torn = rest + torn
                if record is not None:
                    return Tail(record, torn)
        return Tail(None, torn)

    def segments(self) -> list[Path]:
        """Return the full files of the stream, oldest first."""
        return segments_of(self._path)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the whole stream, its full files first."""
        return read_jsonl(self._path)

    def _newest_first(self) -> Iterator[Path]:
        if self._path.exists():
            yield self._path
        # Only looked for where it is needed: the folder may not be readable.
        yield from reversed(self.segments())

    def _is_full(self, size: int, most: int) -> bool:
        written = os.fstat(self._fd).st_size
        return written > 0 and written + size > most

    def _rotate(self) -> None:
        """Put the file aside; where that fails, it grows on."""
        self._closing()
        try:
            self._path.rename(next_segment(self._path))
            self._torn = self._warned = False
        except OSError as error:
            if not self._warned:
                kind = type(error).__name__
                _log.warning("audit_rotation_failed", path=str(self._path), error=kind)
            self._warned = True
        finally:
            self._open()
        if self._fsync:
            _sync_folder(self._path.parent)


def _positive(max_bytes: int) -> int:
    if type(max_bytes) is not int:
        raise TypeError(f"max_bytes must be an int, got {type(max_bytes).__name__}")
    if max_bytes < 1:
        raise ValueError("max_bytes must be at least 1")
    return max_bytes


def _sync_folder(folder: Path) -> None:
    """Have a new name survive a power cut; some systems cannot open a folder, nor need to."""
    if hasattr(os, "O_DIRECTORY"):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
