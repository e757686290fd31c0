"""Approval records as rows and back. What never changes is one text, so that nothing is lost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from capgate.approvals import ApprovalDecision, ApprovalRecord
from capgate.stores.text import column, dump, load, ticks, uncolumn

if TYPE_CHECKING:
    from capgate.call import Actor
    from capgate.stores.database import Db

_CHANGING: Final = frozenset({"status", "decisions", "consumed_by"})
_SELECT: Final = """
    SELECT id, capability_id, actor_id, expires_at, quorum, status, consumed_by, body
    FROM capgate_approvals """
_ALTERED: Final = "altered"
"""The binding of a record whose columns contradict it: no key ever gave this one."""


def approval_row(record: ApprovalRecord) -> tuple[object, ...]:
    """Return a new record as the values of its row."""
    plain = record.to_dict()
    body = {name: value for name, value in plain.items() if name not in _CHANGING}
    return (
        column(record.id),
        column(record.capability_id),
        column(record.actor.id),
        record.status.value,
        ticks(record.expires_at),
        record.quorum,
        None if record.consumed_by is None else column(record.consumed_by),
        dump(body),
    )


def decision_row(decision: ApprovalDecision) -> tuple[object, ...]:
    """Return a decision as the values of its row: who, what, and all of it."""
    return column(approver_of(decision.by)), int(decision.approved), dump(decision.to_dict())


def approver_of(actor: Actor) -> str:
    """Return what tells approvers apart: the kind and the id, as one text."""
    return json.dumps([actor.kind, actor.id], separators=(",", ":"))


def read_records(db: Db, where: str, values: tuple[object, ...]) -> list[ApprovalRecord]:
    """Return the records of the rows that `where` selects, in its order."""
    return [_record(db, row) for row in db.execute(_SELECT + where, values).fetchall()]


def _record(db: Db, row: tuple[object, ...]) -> ApprovalRecord:
    *columns, status, consumed_by, body = row
    plain = load(str(body))
    plain["status"] = status
    plain["consumed_by"] = None if consumed_by is None else uncolumn(str(consumed_by))
    plain["decisions"] = _decisions(db, str(columns[0]))
    record = ApprovalRecord.from_dict(plain)
    texts = (record.id, record.capability_id, record.actor.id)
    known = (*map(column, texts), ticks(record.expires_at), record.quorum)
    if known != tuple(columns):
        return replace(record, binding=_ALTERED)
    return record


def _decisions(db: Db, approval_id: str) -> list[object]:
    rows = db.execute(
        "SELECT body FROM capgate_decisions WHERE approval_id = ? ORDER BY place", (approval_id,)
    )
    return [load(body) for (body,) in rows.fetchall()]
