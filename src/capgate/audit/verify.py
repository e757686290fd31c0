"""Verifying a chained stream, record by record, in constant memory.

Here: the walk and its report. Not here: how records are linked, and where they are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias, cast

from capgate.audit.lines import parse_line
from capgate.audit.links import Head, digest
from capgate.audit.trimming import TRIMMED
from capgate.errors import JSON

Entry: TypeAlias = Mapping[str, JSON] | str | bytes


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a verification found.

    Args:
        ok: Every record is there, unaltered and in its place.
        checked: Records found good, from the start of the stream.
        first_bad: Position, from 1, of the first entry that breaks the chain (for a file, its
            line); None when ok.
        torn: Lines left by interrupted writes that a later record vouches for.
        head: Hash of the last good record. Compare it with one kept elsewhere: a stream whose end
            was cut off is a shorter good one.
        trimmed: Records before the first that were removed, as a later record vouches for.
    """

    ok: bool
    checked: int
    first_bad: int | None = None
    torn: int = 0
    head: str = field(default=Head().hash, compare=False)
    trimmed: int = 0


def verify_chain(records: Iterable[Entry]) -> VerifyReport:
    """Check a whole stream; stops at the first record that is altered, missing or out of place.

    Args:
        records: Records or lines of JSON, oldest first; blank lines are skipped. Open files with
            `"rb"`, so that a line torn inside a character can be read.
    """
    walk, entries = _Walk(), iter(records)
    for position, entry in enumerate(entries, 1):
        if isinstance(entry, str | bytes) and not entry.strip():
            continue
        if not walk.accepts(entry, position):
            # Whether records are missing at the beginning is only told by one that comes later.
            while walk.missing_at is not None and (after := next(entries, None)) is not None:
                walk.excuse(after)
            return walk.report(walk.missing_at or walk.torn_at or position)
    return walk.report(walk.torn_at or walk.missing_at)


def require_whole(report: VerifyReport) -> None:
    """Refuse to cut a chain that is broken: what is wrong with it would be gone.

    Raises:
        ValueError: It is.
    """
    if not report.ok:
        place = report.first_bad
        raise ValueError(f"the chain breaks at record {place}: export it and look before trimming")


class _Walk:
    """Where the verification stands."""

    __slots__ = (
        "_before",
        "_head",
        "_lines",
        "_start",
        "_torn",
        "_vouched",
        "missing_at",
        "torn_at",
    )

    def __init__(self) -> None:
        self._head = self._start = Head()
        self._before: JSON = None  # what was torn in front of a first record, and is gone with it
        self._vouched = 0
        # Where a stream begins whose first records were removed, until a record vouches for that.
        self.missing_at: int | None = None
        self._forget_torn()

    def _forget_torn(self) -> None:
        self._torn, self._lines = sha256(), 0
        self.torn_at: int | None = None

    def accepts(self, entry: Entry, position: int) -> bool:
        record = _record_of(entry)
        if record is None and isinstance(entry, str | bytes):
            return self._set_aside(entry, position)
        if record is None:
            return False
        if self._head.seq == 0:
            self._begin(record, position)
        if not self._follows(record):
            return False
        self._head = Head(record["seq"], record["hash"])
        if self.missing_at is not None:
            self.excuse(record)
        self._vouched += self._lines
        self._forget_torn()
        return True

    def _begin(self, record: Mapping[str, JSON], position: int) -> None:
        """Take a first record for what it says: another may have followed one that is gone."""
        seq, prev = record.get("seq"), record.get("prev")
        if type(seq) is int and seq > 1 and type(prev) is str:
            self._head = self._start = Head(seq - 1, prev)
            self._before = record.get("torn")
            self.missing_at = position

    def excuse(self, entry: Entry) -> None:
        """Take it that nothing is missing at the beginning, if a record vouches for that."""
        record = _record_of(entry)
        if record is None or record.get("type") != TRIMMED:
            return
        if record.get("data") == {"seq": self._start.seq, "hash": self._start.hash}:
            self.missing_at = None

    def _set_aside(self, line: str | bytes, position: int) -> bool:
        """Keep a line that is no record: good only when the next record vouches for it."""
        raw = line.encode("utf-8", "surrogateescape") if isinstance(line, str) else line
        self._torn.update(raw.removesuffix(b"\n") + b"\n")
        self._lines += 1
        self.torn_at = self.torn_at or position
        return True

    def _follows(self, record: Mapping[str, JSON]) -> bool:
        gone = self._before if self._head == self._start else None
        torn = self._torn.hexdigest() if self._lines else gone
        seq = record.get("seq")
        if type(seq) is not int or seq != self._head.seq + 1 or record.get("torn") != torn:
            return False
        return record.get("prev") == self._head.hash and _hash_holds(record)

    def report(self, first_bad: int | None) -> VerifyReport:
        ok = first_bad is None
        checked, head = self._head.seq - self._start.seq, self._head.hash
        return VerifyReport(ok, checked, first_bad, self._vouched, head, self._start.seq)


def _record_of(entry: object) -> Mapping[str, JSON] | None:
    """Return the record that an entry holds, whatever it is."""
    if isinstance(entry, Mapping):
        return cast("Mapping[str, JSON]", entry)
    return parse_line(entry) if isinstance(entry, str | bytes) else None


def _hash_holds(record: Mapping[str, JSON]) -> bool:
    try:
        return bool(digest(record) == record["hash"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return False
