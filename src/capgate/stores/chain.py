"""A chain as it stands in a database, read from its beginning in constant memory."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from anyio import from_thread

from capgate.audit import Head, VerifyReport, is_older, parse_line, verify_chain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from capgate.errors import JSON
    from capgate.stores.database import Database

_HEAD: Final = "SELECT seq, hash FROM capgate_audit_heads WHERE stream = ?"
_ALL: Final = "SELECT seq, hash, record FROM capgate_audit WHERE stream = ? ORDER BY seq"
_PAGE: Final = 1_000
_OWNER_ONLY: Final = 0o600
_NO_RECORD: Final[dict[str, JSON]] = {}


class Rows:
    """The rows of one chain, read in a thread that anyio runs; cancelling its task stops that."""

    def __init__(self, database: Database, stream: str) -> None:
        """Read `stream`; every method reads it anew."""
        self._database = database
        self._values = (stream,)

    def head(self) -> Head | None:
        """Return the last record's number and hash, as they were noted apart from it."""
        for row in self._database.stream(_HEAD, self._values):
            return Head(*cast("tuple[int, str]", row))
        return None

    def texts(self) -> Iterator[tuple[int, str, str]]:
        """Yield each number, hash and record as they are stored."""
        for place, row in enumerate(self._database.stream(_ALL, self._values)):
            if place % _PAGE == 0:
                from_thread.check_cancelled()
            yield cast("tuple[int, str, str]", row)


def record_of(seq: int, hash_: str, text: str) -> dict[str, JSON]:
    """Return the record of a row; an empty one if the row says something else than the record."""
    record = parse_line(text)
    if record is None or (record.get("seq"), record.get("hash")) != (seq, hash_):
        return _NO_RECORD
    return record


def verified(rows: Rows) -> VerifyReport:
    """Check a chain up to its end, which must not lie before where it was noted."""
    return _checked(rows, lambda _: None)


def exported(rows: Rows, path: Path) -> VerifyReport:
    """Write every record to a new file, and check them on the way."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, _OWNER_ONLY), "wb") as file:
        try:
            report = _checked(rows, lambda text: file.write(text.encode() + b"\n"))
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink()  # half an export is none
            raise
    return report


def last_before(rows: Rows, before: datetime) -> Head | None:
    """Return the last of the records at the beginning that are older than a time."""
    last = None
    for seq, hash_, text in rows.texts():
        if not is_older(record_of(seq, hash_, text), before):
            break
        last = Head(seq, hash_)
    return last


def _checked(rows: Rows, each: Callable[[str], object]) -> VerifyReport:
    """Check a chain, handing on every text, also what follows a bad one."""
    noted = rows.head()
    read = 0
    met = False

    def records() -> Iterator[dict[str, JSON]]:
        nonlocal read, met
        for seq, hash_, text in rows.texts():
            each(text)
            read += 1
            met = met or noted == (seq, hash_, None)
            yield record_of(seq, hash_, text)

    following = records()
    report = verify_chain(following)
    for _ in following:
        continue
    if report.ok and not met and (read or noted):
        return replace(report, ok=False, first_bad=read + 1)
    return report
