"""Approvals in a database: each change is one compare-and-set, the answer read in its transaction.

What a change means, and what refuses it, is in `capgate.approvals`; here is how it is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from capgate.approvals import (
    ApprovalDecision,
    ApprovalRecord,
    ApprovalStatus,
    consumed,
    decided,
    released,
    withdrawn,
)
from capgate.errors import CapabilityError, ErrorCode
from capgate.stores.opening import database_of
from capgate.stores.rows import approval_row, decision_row, read_records
from capgate.stores.text import column, page_size, ticks
from capgate.stores.unfinished import END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from capgate.stores.database import Database, Db

_ORDER: Final = "capgate_approvals"
_CREATE: Final = """
    INSERT INTO capgate_approvals
        (id, capability_id, actor_id, status, expires_at, quorum, consumed_by, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_DECIDE: Final = """
    INSERT INTO capgate_decisions (approval_id, place, approver, approved, body)
    SELECT id, (SELECT count(*) FROM capgate_decisions WHERE approval_id = id), ?, ?, ?
    FROM capgate_approvals WHERE id = ? AND status = 'pending' AND expires_at > ?
    ON CONFLICT DO NOTHING"""
_APPROVE: Final = """
    UPDATE capgate_approvals SET status = 'approved'
    WHERE id = ? AND quorum <= (
        SELECT count(*) FROM capgate_decisions WHERE approval_id = id AND approved = 1)"""
_REJECT: Final = "UPDATE capgate_approvals SET status = 'rejected' WHERE id = ?"
_CONSUME: Final = """
    UPDATE capgate_approvals SET status = 'consumed', consumed_by = ?
    WHERE id = ? AND status = 'approved' AND expires_at > ?"""
_BEGIN: Final = """
    INSERT INTO capgate_executions (execution_id, approval_id, since) VALUES (?, ?, ?)
    ON CONFLICT DO NOTHING"""
_RELEASE: Final = """
    UPDATE capgate_approvals SET status = 'approved', consumed_by = NULL
    WHERE id = ? AND status = 'consumed' AND consumed_by = ?"""
_WITHDRAW: Final = """
    UPDATE capgate_approvals SET status = 'cancelled'
    WHERE id = ? AND status = 'pending' AND expires_at > ?"""
_EXPIRE: Final = """
    UPDATE capgate_approvals SET status = 'expired'
    WHERE status IN ('pending', 'approved') AND expires_at <= ?"""
_FIND: Final = """
    WHERE (CAST(?1 AS TEXT) IS NULL OR status = ?1)
      AND (CAST(?2 AS TEXT) IS NULL OR capability_id = ?2)
      AND (CAST(?3 AS TEXT) IS NULL OR actor_id = ?3)
      AND (CAST(?4 AS TEXT) IS NULL OR seq > (SELECT seq FROM capgate_approvals WHERE id = ?4))
    ORDER BY seq LIMIT ?5"""


class SqlApprovals:
    """An `ApprovalStore` in a database, safe for any number of tasks, threads and processes.

    Args:
        database: `sqlite:///FILE` or `postgresql://…`, or a database that other stores use too.
        fence: Whether whoever spends an approval is written down with it, until the audit on the
            same database tells the end; see `Store.unfinished`.

    Raises:
        ConfigurationError: Not a store's URL.
    """

    __slots__ = ("_database", "_fence")

    def __init__(self, database: str | Database, *, fence: bool = False) -> None:
        """See the class."""
        self._database = database_of(database)
        self._fence = fence

    @property
    def durable(self) -> bool:
        """Return True: the records outlive the process."""
        return True

    async def aclose(self) -> None:
        """Close the database, and every other store on it."""
        await self._database.aclose()

    async def create(self, record: ApprovalRecord, /) -> None:
        """See `ApprovalStore.create`."""
        row = approval_row(record)

        def insert(db: Db) -> bool:
            if self._database.lock_order is not None:
                # Pages follow `seq`: no record may appear before one that is there already.
                db.execute(self._database.lock_order, (_ORDER,))
            return db.execute(_CREATE, row).rowcount == 1

        if not await self._database.transact(insert):
            raise ValueError("this approval id is taken")

    async def get(self, approval_id: str, /) -> ApprovalRecord | None:
        """See `ApprovalStore.get`."""
        return await self._database.transact(lambda db: _get(db, column(approval_id)))

    async def decide(
        self, approval_id: str, /, decision: ApprovalDecision, now: datetime
    ) -> ApprovalRecord:
        """See `ApprovalStore.decide`."""
        row, id_ = decision_row(decision), column(approval_id)
        approve = _APPROVE if decision.approved else _REJECT

        def change(db: Db) -> bool:
            if db.execute(_DECIDE, (*row, id_, ticks(now))).rowcount == 0:
                return False
            db.execute(approve, (id_,))
            return True

        return await self._change(
            approval_id, change, lambda record: decided(record, decision, now)
        )

    async def consume(
        self, approval_id: str, /, execution_id: str, now: datetime
    ) -> ApprovalRecord:
        """See `ApprovalStore.consume`."""

        def change(db: Db) -> bool:
            holder, id_, at = column(execution_id), column(approval_id), ticks(now)
            if db.execute(_CONSUME, (holder, id_, at)).rowcount == 0:
                return False
            if self._fence:
                db.execute(_BEGIN, (holder, id_, at))
            return True

        return await self._change(
            approval_id, change, lambda record: consumed(record, execution_id, now)
        )

    async def release(self, approval_id: str, /, execution_id: str) -> ApprovalRecord:
        """See `ApprovalStore.release`."""

        def change(db: Db) -> bool:
            holder = column(execution_id)
            if db.execute(_RELEASE, (column(approval_id), holder)).rowcount == 0:
                return False
            db.execute(END, (holder,))
            return True

        return await self._change(
            approval_id, change, lambda record: released(record, execution_id)
        )

    async def withdraw(self, approval_id: str, /, now: datetime) -> ApprovalRecord:
        """See `ApprovalStore.withdraw`."""

        def change(db: Db) -> bool:
            return db.execute(_WITHDRAW, (column(approval_id), ticks(now))).rowcount == 1

        return await self._change(approval_id, change, lambda record: withdrawn(record, now))

    async def find(
        self,
        status: ApprovalStatus | None = None,
        capability_id: str | None = None,
        actor_id: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[ApprovalRecord]:
        """See `ApprovalStore.find`."""
        size = page_size(limit)
        texts = (None if status is None else status.value, capability_id, actor_id, after)
        wanted = tuple(None if text is None else column(text) for text in texts)
        return await self._database.transact(lambda db: read_records(db, _FIND, (*wanted, size)))

    async def expire_due(self, now: datetime, /) -> int:
        """See `ApprovalStore.expire_due`."""
        return await self._database.transact(lambda db: db.execute(_EXPIRE, (ticks(now),)).rowcount)

    async def _change(
        self,
        approval_id: str,
        change: Callable[[Db], bool],
        rule: Callable[[ApprovalRecord], ApprovalRecord],
    ) -> ApprovalRecord:
        """Make a change and return what the record became.

        Raises:
            CapabilityError: APPROVAL_NOT_FOUND, or what `rule` says of the record as it is.
        """

        def run(db: Db) -> ApprovalRecord:
            if self._database.lock_row is not None:
                # Or what is read afterwards could be what another made of it meanwhile.
                db.execute(self._database.lock_row, (column(approval_id),))
            changed = change(db)
            record = _get(db, column(approval_id))
            if record is None:
                raise CapabilityError(ErrorCode.APPROVAL_NOT_FOUND)
            if not changed:
                rule(record)
                raise LookupError("the row and its record do not agree: it has been altered")
            return record

        return await self._database.transact(run)


def _get(db: Db, id_: str) -> ApprovalRecord | None:
    found = read_records(db, "WHERE id = ?", (id_,))
    return found[0] if found else None
