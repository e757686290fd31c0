"""Approval records as rows and back. What never changes is one text, so that nothing is lost.

A row carries a digest over itself and its decisions: a field that was changed behind the store's
back shows. Whoever can write rows can also write digests; against that there are keys
(`ApprovalConfig.keys`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, cast

from capgate.approvals import ApprovalDecision, ApprovalRecord, ApprovalStatus
from capgate.stores.text import column, dump, load, ticks, uncolumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from capgate.call import Actor
    from capgate.stores.database import Db

Fixed: TypeAlias = "tuple[str, str, str, int, int]"
"""The columns that never change: id, capability, requester, expiry and quorum."""
Digests: TypeAlias = "tuple[str, str]"
Given: TypeAlias = "tuple[int, str, int, str]"
"""One decision: its place, who, whether it approves, and all of it."""

_CHANGING: Final = frozenset({"status", "decisions", "consumed_by"})
_OPEN: Final = frozenset({ApprovalStatus.PENDING, ApprovalStatus.APPROVED})
_SELECT: Final = """
    SELECT id, capability_id, actor_id, expires_at, quorum, body, status, consumed_by,
        digest, digest_expired
    FROM capgate_approvals """
_NEXT: Final = """
    SELECT id FROM capgate_approvals
    WHERE CAST(?1 AS TEXT) IS NULL OR seq > (SELECT seq FROM capgate_approvals WHERE id = ?1)
    ORDER BY seq LIMIT ?2"""
_DECISIONS: Final = """
    SELECT place, approver, approved, body FROM capgate_decisions
    WHERE approval_id = ? ORDER BY place"""
_ALTERED: Final = "altered"
"""The binding of a record that was altered: no key ever gave this one."""


class Row(NamedTuple):
    """One approval as it stands in the database, its decisions included."""

    fixed: Fixed
    body: str
    status: str
    consumed_by: str | None
    decisions: tuple[Given, ...] = ()

    @property
    def digests(self) -> Digests:
        """The digest over all of it, and the one for when it has expired; '' if it cannot.

        The second is there because records expire in one UPDATE that reads no row.
        """
        facts = (self.fixed, self.body, self.consumed_by, self.decisions)
        common = sha256(json.dumps(facts).encode()).hexdigest()
        expired = _digest(common, "expired") if self.status in _OPEN else ""
        return _digest(common, self.status), expired

    def after(self, record: ApprovalRecord) -> Row:
        """Return the row of what this one's record has become."""
        given = _given(record.decisions[len(self.decisions) :], len(self.decisions))
        return self._replace(
            status=record.status.value,
            consumed_by=_name(record.consumed_by),
            decisions=self.decisions + given,
        )


def approval_row(record: ApprovalRecord) -> Row:
    """Return a new record as its row."""
    plain = record.to_dict()
    body = {name: value for name, value in plain.items() if name not in _CHANGING}
    return Row(
        _fixed(record),
        dump(body),
        record.status.value,
        _name(record.consumed_by),
        _given(record.decisions, 0),
    )


def approver_of(actor: Actor) -> str:
    """Return what tells approvers apart: the kind and the id, as one text."""
    return json.dumps([actor.kind, actor.id], separators=(",", ":"))


def read_records(db: Db, where: str, values: tuple[object, ...]) -> list[ApprovalRecord]:
    """Return the records of the rows that `where` selects, in its order.

    One that was altered has a binding that nobody gave it; one that cannot be read at all is left
    out, so that it does not hide the others. Both are in `altered`.
    """
    found: list[ApprovalRecord] = []
    for row in _rows(db, where, values):
        with suppress(LookupError):
            found.append(_shown(row))
    return found


def read_record(db: Db, where: str, values: tuple[object, ...]) -> ApprovalRecord | None:
    """Return the record that `where` selects, marked as above if it was altered.

    Raises:
        LookupError: It cannot be read.
    """
    return next(map(_shown, _rows(db, where, values)), None)


def read_row(db: Db, where: str, values: tuple[object, ...]) -> tuple[Row, ApprovalRecord] | None:
    """Return the row that `where` selects and its record, None where there is no row.

    Raises:
        LookupError: It was altered.
    """
    for row in _rows(db, where, values):
        record, whole = _judged(row)
        if not whole:
            raise LookupError(f"the stored approval {record.id!r} has been altered")
        return row[0], record
    return None


def altered_after(db: Db, last: str | None, size: int) -> tuple[list[str], str | None]:
    """Look at the next rows behind one; return those that were altered, and the last of all."""
    found: list[str] = []
    rows = db.execute(_NEXT, (last, size)).fetchall()
    for (id_,) in rows:
        try:
            read_row(db, "WHERE id = ?", (id_,))
        except LookupError:
            found.append(uncolumn(id_))
    return found, rows[-1][0] if rows else None


def _rows(db: Db, where: str, values: tuple[object, ...]) -> Iterator[tuple[Row, Digests]]:
    for found in db.execute(_SELECT + where, values).fetchall():
        *fixed, body, status, consumed_by, digest, digest_expired = found
        decisions = _decisions(db, fixed[0])
        row = Row(cast("Fixed", tuple(fixed)), body, status, consumed_by, decisions)
        yield row, (digest, digest_expired)


def _judged(stored: tuple[Row, Digests]) -> tuple[ApprovalRecord, bool]:
    """Return the record of a row, and whether it is what was written.

    Raises:
        LookupError: There is no record in it.
    """
    row, digests = stored
    try:
        record = _record(row)
    except Exception as error:
        raise LookupError(f"the stored approval {row.fixed[0]!r} cannot be read") from error
    # The columns too: a digest can be written by anybody who can write a row, a binding not.
    return record, row.digests == digests and _fixed(record) == row.fixed


def _shown(stored: tuple[Row, Digests]) -> ApprovalRecord:
    """Return the record of a row as far as it can be read; raises as `_judged`."""
    record, whole = _judged(stored)
    return record if whole else replace(record, binding=_ALTERED)


def _given(decisions: Sequence[ApprovalDecision], first: int) -> tuple[Given, ...]:
    """Return decisions as the values of their rows, the first one's place given."""
    return tuple(
        (
            place,
            column(approver_of(decision.by)),
            int(decision.approved),
            dump(decision.to_dict()),
        )
        for place, decision in enumerate(decisions, first)
    )


def _decisions(db: Db, approval_id: str) -> tuple[Given, ...]:
    return tuple(map(tuple, db.execute(_DECISIONS, (approval_id,)).fetchall()))


def _record(row: Row) -> ApprovalRecord:
    plain = load(row.body)
    plain["status"] = row.status
    plain["consumed_by"] = None if row.consumed_by is None else uncolumn(row.consumed_by)
    plain["decisions"] = [load(body) for *_, body in row.decisions]
    return ApprovalRecord.from_dict(plain)


def _fixed(record: ApprovalRecord) -> Fixed:
    texts = (column(record.id), column(record.capability_id), column(record.actor.id))
    return (*texts, ticks(record.expires_at), record.quorum)


def _name(text: str | None) -> str | None:
    return None if text is None else column(text)


def _digest(common: str, status: str) -> str:
    return sha256(f"{common} {status}".encode()).hexdigest()
