"""A chain as it stands in a database, read from its beginning in constant memory.

Verifying, exporting, and finding what is older. How a chain is written is in `chain`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from anyio import from_thread

from capgate.audit import (
    Head,
    VerifyReport,
    parse_line,
    recorded_before,
    require_whole,
    verify_chain,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from capgate.errors import JSON
    from capgate.stores.chain import Chain

# The last record as it is noted apart comes with each row, for one statement sees one moment.
_ALL: Final = """
    SELECT a.seq, a.hash, a.record, h.seq, h.hash
    FROM capgate_audit a LEFT JOIN capgate_audit_heads h ON h.stream = a.stream
    WHERE a.stream = ? ORDER BY a.seq"""
_HEAD: Final = "SELECT seq FROM capgate_audit_heads WHERE stream = ?"
_PAGE: Final = 1_000
_OWNER_ONLY: Final = 0o600
_ANY: Final = "surrogateescape"  # as an altered text was read
_NO_RECORD: Final[dict[str, JSON]] = {}


class StoredRecord(NamedTuple):
    """One record as it is stored, and where the chain ends according to the database."""

    seq: int
    hash: str
    text: str
    last_seq: int | None
    last_hash: str | None

    @property
    def record(self) -> dict[str, JSON]:
        """The record; an empty one if the row says something else than the record in it."""
        record = None if "\n" in self.text else parse_line(self.text)
        if record is None or (record.get("seq"), record.get("hash")) != (self.seq, self.hash):
            return _NO_RECORD
        return record


class Rows:
    """The rows of one chain, read in a thread that anyio runs; cancelling its task stops that."""

    def __init__(self, chain: Chain) -> None:
        """Read `chain`; every method reads it anew."""
        self._stream = chain.database.stream
        self._values = (chain.stream,)

    def have_begun(self) -> bool:
        """Tell whether the chain ever had a record."""
        return any(True for _ in self._stream(_HEAD, self._values))

    def read(self) -> Iterator[StoredRecord]:
        """Yield each row, oldest first."""
        for place, row in enumerate(self._stream(_ALL, self._values)):
            if place % _PAGE == 0:
                from_thread.check_cancelled()
            yield StoredRecord(*cast("tuple[int, str, str, int | None, str | None]", row))


def verified(rows: Rows) -> VerifyReport:
    """Check a chain up to its end, which must be where the database says it is."""
    return _checked(rows, lambda _row, _record: None)


def exported(rows: Rows, path: Path) -> VerifyReport:
    """Write every record to a new file, and check them on the way."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, _OWNER_ONLY), "wb") as file:
        try:
            report = _checked(rows, lambda row, _: file.write(row.text.encode(errors=_ANY) + b"\n"))
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            path.unlink()  # half an export is none
            raise
    return report


def last_before(rows: Rows, before: datetime) -> Head | None:
    """Return the last of the records at the beginning that are older than a time.

    Raises:
        ValueError: The chain is broken.
    """
    last: Head | None = None
    younger = False

    def look(row: StoredRecord, record: Mapping[str, JSON]) -> None:
        nonlocal last, younger
        younger = younger or not recorded_before(record, before)
        if not younger:
            last = Head(row.seq, row.hash)

    require_whole(_checked(rows, look))
    return last


def _checked(
    rows: Rows, each: Callable[[StoredRecord, Mapping[str, JSON]], object]
) -> VerifyReport:
    """Check a chain, handing on every row and its record, also what follows a bad one."""
    begun = rows.have_begun()  # asked first: a record may come meanwhile, and go never
    row: StoredRecord | None = None
    read = 0

    def records() -> Iterator[Mapping[str, JSON]]:
        nonlocal read, row
        for row in rows.read():
            record = row.record
            each(row, record)
            read += 1
            yield record

    following = records()
    report = verify_chain(following)
    for _ in following:
        continue
    whole = not begun if row is None else (row.seq, row.hash) == (row.last_seq, row.last_hash)
    if report.ok and not whole:
        return replace(report, ok=False, first_bad=read + 1)
    return report
