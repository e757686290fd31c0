"""Executions that began and of whose end there is no word, and settling what became of them.

An execution is written down with the approval it spends, or with the key it holds, in the
transaction of the event that its handler starts; and struck out with the event that ends it. What
a crash leaves in between is what this finds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from capgate.approvals import check_comment
from capgate.call import check_operator
from capgate.errors import CapabilityError, Effect, ErrorCode
from capgate.idempotency import StoredOutcome, store_error
from capgate.stores.text import column, dump, moment, uncolumn

if TYPE_CHECKING:
    from datetime import datetime

    from capgate.stores.database import Db

END: Final = "DELETE FROM capgate_executions WHERE execution_id = ?"
"""Strikes out an execution that has ended."""

# One row for each execution: that of its approval, with the key it holds; that of its key; or that
# of the key it was resumed for, when its end was told and the key does not know yet.
_SPENT: Final = """
    SELECT e.execution_id, a.capability_id, e.approval_id, k.key, e.since
    FROM capgate_executions e JOIN capgate_approvals a ON a.id = e.approval_id
    LEFT JOIN capgate_idempotency k
        ON k.execution_id = e.execution_id AND k.state = 'in-flight'"""
_HELD: Final = """
    SELECT execution_id, NULL, NULL, key, since
    FROM capgate_idempotency WHERE state = 'in-flight'
        AND execution_id NOT IN (SELECT execution_id FROM capgate_executions)"""
_RESUMED: Final = """
    SELECT a.consumed_by, a.capability_id, a.id, k.key, k.since
    FROM capgate_idempotency k JOIN capgate_approvals a ON a.id = k.approval_id
    WHERE k.state = 'suspended' AND a.status = 'consumed'
        AND a.consumed_by NOT IN (SELECT execution_id FROM capgate_executions)"""
_ENTERED: Final = " AND started_at IS NOT NULL"
_WAITING: Final = " AND started_at IS NULL"
_PAGE: Final = " ORDER BY 5, 1 LIMIT ?"
# Its own key; and that of the approved call, which waits for the approval that was spent.
_FREE: Final = """
    DELETE FROM capgate_idempotency
    WHERE (state = 'in-flight' AND execution_id = ?) OR (state = 'suspended' AND approval_id = ?)"""
_KEEP: Final = """
    UPDATE capgate_idempotency SET state = 'ended', outcome = ?
    WHERE (state = 'in-flight' AND execution_id = ?) OR (state = 'suspended' AND approval_id = ?)"""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """One execution that began and of whose end there is no word.

    Args:
        execution_id: The execution.
        capability_id: What it ran.
        approval_id: The approval it spent, if any.
        idempotency_key: The caller's key it holds, if any.
        since: When it spent or claimed it, in UTC.
    """

    execution_id: str
    capability_id: str
    approval_id: str | None
    idempotency_key: str | None
    since: datetime


def unfinished(db: Db, limit: int, *, entered: bool) -> list[Unfinished]:
    """Return the oldest unfinished executions, those that came to their handler or the others."""
    begun = " UNION ALL ".join((_SPENT, _HELD + _ENTERED, _RESUMED))
    wanted = begun if entered else _HELD + _WAITING
    return [_unfinished(row) for row in db.execute(wanted + _PAGE, (limit,)).fetchall()]


def check_settling(execution_id: object, outcome: object, by: object, comment: object) -> Effect:
    """Return the effect that an operator names.

    Raises:
        TypeError, ValueError: An argument that cannot be.
    """
    if type(execution_id) is not str:
        raise TypeError("execution_id must be a str")
    if outcome not in {"done", "none"}:
        raise ValueError("outcome must be 'done' or 'none'")
    check_operator(by, "settle")
    check_comment(comment)
    return Effect(str(outcome))


def settle(db: Db, execution_id: str, effect: Effect) -> Unfinished:
    """Strike out an unfinished execution and give its key the answer that fits.

    Raises:
        LookupError: There is none with that id.
    """
    name = column(execution_id)
    conditions = (" WHERE e.execution_id = ?1", " AND execution_id = ?1", " AND a.consumed_by = ?1")
    parts = zip((_SPENT, _HELD, _RESUMED), conditions, strict=True)
    row = db.execute(" UNION ALL ".join(map("".join, parts)), (name,)).fetchone()
    approval_id = None if row is None else row[2]
    # What is struck out decides, not what was read: of two that settle at once, one comes too late.
    struck = db.execute(END, (name,)).rowcount
    if effect is Effect.NONE:
        struck += db.execute(_FREE, (name, approval_id)).rowcount
    else:
        outcome = dump(_settled(execution_id, effect).to_dict())
        struck += db.execute(_KEEP, (outcome, name, approval_id)).rowcount
    if row is None or not struck:
        raise LookupError("no unfinished execution has that id")
    return _unfinished(row)


def _settled(execution_id: str, effect: Effect) -> StoredOutcome:
    error = CapabilityError(ErrorCode.INTERNAL_ERROR, reason="settled", effect=effect)
    stored = {**store_error(error), "execution_id": execution_id}
    return StoredOutcome(execution_id, "failed", error=stored, effect=effect.value)


def _unfinished(row: tuple[str, str | None, str | None, str | None, int]) -> Unfinished:
    execution_id, capability_id, approval_id, scoped, since = row
    capability, key = (None, None) if scoped is None else _parts(uncolumn(scoped))
    return Unfinished(
        uncolumn(execution_id),
        capability or "" if capability_id is None else uncolumn(capability_id),
        None if approval_id is None else uncolumn(approval_id),
        key,
        moment(since),
    )


def _parts(scoped: str) -> tuple[str, str]:
    """Return the capability and the caller's own key of a key, which may be of anybody's making."""
    try:
        capability, _, _, key = json.loads(scoped)
    except (ValueError, TypeError):
        return "", scoped
    return str(capability), str(key)
