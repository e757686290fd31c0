"""The sink that appends events to a file, one JSON object a line.

Here: the open file and its last, maybe torn, line. Not here: rotation, chaining.
"""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from capgate.audit.lines import Tail, encode_line, ends_torn, read_tail

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    Raises:
        OSError: The file cannot be opened for writing.
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: bool = False) -> None:
        self._path = Path(path)
        self._fsync = fsync
        # Reentrant: the collector may close an abandoned call, and audit it, during a write.
        self._lock = threading.RLock()
        self._fd = os.open(self._path, _FLAGS, _OWNER_ONLY)
        self._closing = weakref.finalize(self, os.close, self._fd)
        self._closing.atexit = False
        self._torn = ends_torn(self._path)
        if self._torn:
            _log.warning("audit_torn_line", path=str(self._path))

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
            if not self._closing.alive:
                raise ValueError("the audit file is closed")
            whole = b"\n" + line if self._torn else line
            self._torn = True
            _write_all(self._fd, whole)
            self._torn = False
            if self._fsync:
                os.fsync(self._fd)

    def close(self) -> None:
        """Close the file; without it, that happens when the sink is no longer used."""
        with self._lock:
            self._closing()

    def tail(self) -> Tail:
        """Return the last whole record of the file, and what a torn write left after it."""
        with self._lock:
            return read_tail(self._path)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
