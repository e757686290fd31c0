"""Approvals in a database: each change is one compare-and-set, the answer read in its transaction.

What a change means, and what refuses it, is in `capgate.approvals`; here is how it is kept.
"""

from __future__ import annotations

from functools import partial
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
from capgate.stores.rows import (
    Row,
    altered_after,
    approval_row,
    read_record,
    read_records,
    read_row,
)
from capgate.stores.text import column, page_size, ticks
from capgate.stores.unfinished import END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from capgate.audit import AuditEvent
    from capgate.stores.chain import Chain
    from capgate.stores.database import Database, Db

_ORDER: Final = "capgate_approvals"
_PAGE: Final = 1_000
_CREATE: Final = """
    INSERT INTO capgate_approvals
        (id, capability_id, actor_id, expires_at, quorum, body, status, consumed_by,
         digest, digest_expired)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
_ONE: Final = "WHERE id = ?"
_DECIDE: Final = """
    INSERT INTO capgate_decisions (approval_id, place, approver, approved, body)
    SELECT id, ?, ?, ?, ? FROM capgate_approvals
    WHERE id = ? AND status = 'pending' AND expires_at > ? ON CONFLICT DO NOTHING"""
_APPROVE: Final = """
    UPDATE capgate_approvals SET digest = ?1, digest_expired = ?2,
        status = CASE WHEN quorum <= (
            SELECT count(*) FROM capgate_decisions WHERE approval_id = ?3 AND approved = 1
        ) THEN 'approved' ELSE status END
    WHERE id = ?3"""
_REJECT: Final = """
    UPDATE capgate_approvals SET digest = ?, digest_expired = ?, status = 'rejected' WHERE id = ?"""
_CONSUME: Final = """
    UPDATE capgate_approvals
    SET digest = ?, digest_expired = ?, status = 'consumed', consumed_by = ?
    WHERE id = ? AND status = 'approved' AND expires_at > ?"""
_BEGIN: Final = """
    INSERT INTO capgate_executions (execution_id, approval_id, since) VALUES (?, ?, ?)
    ON CONFLICT DO NOTHING"""
# A key of the same execution is begun too: its approval was given within the call.
_BEGIN_KEY: Final = """
    UPDATE capgate_idempotency SET started_at = ? WHERE execution_id = ? AND state = 'in-flight'"""
_RELEASE: Final = """
    UPDATE capgate_approvals
    SET digest = ?, digest_expired = ?, status = 'approved', consumed_by = NULL
    WHERE id = ? AND status = 'consumed' AND consumed_by = ?"""
_WITHDRAW: Final = """
    UPDATE capgate_approvals SET digest = ?, digest_expired = ?, status = 'cancelled'
    WHERE id = ? AND status = 'pending' AND expires_at > ?"""
_EXPIRE: Final = """
    UPDATE capgate_approvals SET digest = digest_expired, digest_expired = '', status = 'expired'
    WHERE status IN ('pending', 'approved') AND expires_at <= ?"""
_FIND: Final = """
    WHERE (CAST(?1 AS TEXT) IS NULL OR status = ?1)
      AND (CAST(?2 AS TEXT) IS NULL OR capability_id = ?2)
      AND (CAST(?3 AS TEXT) IS NULL OR actor_id = ?3)
      AND (CAST(?4 AS TEXT) IS NULL OR seq > (SELECT seq FROM capgate_approvals WHERE id = ?4))
    ORDER BY seq LIMIT ?5"""


def _nothing(_db: Db) -> None:
    """Lock nothing else."""


class SqlApprovals:
    """An `ApprovalStore` in a database, safe for any number of tasks, threads and processes.

    Args:
        database: `sqlite:///FILE` or `postgresql://…`, or a database that other stores use too.
        chain: The audit on the same database, for `Store`. Whoever spends an approval is written
            down until the audit tells the end, and the event that its handler starts is kept with
            that.

    Raises:
        ConfigurationError: Not a store's URL.
    """

    __slots__ = ("_chain", "_database")

    def __init__(self, database: str | Database, *, chain: Chain | None = None) -> None:
        """See the class."""
        self._database = database_of(database)
        self._chain = chain

    @property
    def durable(self) -> bool:
        """Return True: the records outlive the process."""
        return True

    @property
    def keeps_starts(self) -> bool:
        """See `StartKeepingApprovals`."""
        return self._chain is not None

    async def aclose(self) -> None:
        """Close the database, and every other store on it."""
        await self._database.aclose()

    async def create(self, record: ApprovalRecord, /) -> None:
        """See `ApprovalStore.create`."""
        row = approval_row(record)
        values = (*row.fixed, row.body, row.status, row.consumed_by, *row.digests)

        def insert(db: Db) -> bool:
            if self._database.lock_order is not None:
                # Pages follow `seq`: no record may appear before one that is there already.
                db.execute(self._database.lock_order, (_ORDER,))
            return db.execute(_CREATE, values).rowcount == 1

        if not await self._database.transact(insert):
            raise ValueError("this approval id is taken")

    async def get(self, approval_id: str, /) -> ApprovalRecord | None:
        """See `ApprovalStore.get`; `find` leaves out a record that cannot be read, this says so.

        Raises:
            LookupError: The record cannot be read: it was altered.
        """
        id_ = column(approval_id)
        return await self._database.transact(lambda db: read_record(db, _ONE, (id_,)))

    async def decide(
        self, approval_id: str, /, decision: ApprovalDecision, now: datetime
    ) -> ApprovalRecord:
        """See `ApprovalStore.decide`."""
        conclude = _APPROVE if decision.approved else _REJECT

        def change(db: Db, id_: str, row: Row) -> bool:
            # The quorum is counted by the database, whatever was read.
            if db.execute(_DECIDE, (*row.decisions[-1], id_, ticks(now))).rowcount == 0:
                return False
            return db.execute(conclude, (*row.digests, id_)).rowcount == 1

        return await self._change(
            approval_id, lambda record: decided(record, decision, now), change
        )

    async def consume(
        self,
        approval_id: str,
        /,
        execution_id: str,
        now: datetime,
        *,
        started: AuditEvent | None = None,
    ) -> ApprovalRecord:
        """See `ApprovalStore.consume` and `StartKeepingApprovals.consume`."""
        chain = self._chain

        def change(db: Db, id_: str, row: Row) -> bool:
            holder, at = row.consumed_by, ticks(now)
            if db.execute(_CONSUME, (*row.digests, holder, id_, at)).rowcount == 0:
                return False
            if chain is not None:
                db.execute(_BEGIN, (holder, id_, at))
                db.execute(_BEGIN_KEY, (at, holder))
                if started is not None:
                    chain.append(db, [started.to_dict()])
            return True

        return await self._change(
            approval_id,
            lambda record: consumed(record, execution_id, now),
            change,
            # The chain before the row: see `Database.lock_order`.
            first=_nothing if chain is None or started is None else chain.take_turn,
        )

    async def release(self, approval_id: str, /, execution_id: str) -> ApprovalRecord:
        """See `ApprovalStore.release`."""
        holder = column(execution_id)

        def change(db: Db, id_: str, row: Row) -> bool:
            if db.execute(_RELEASE, (*row.digests, id_, holder)).rowcount == 0:
                return False
            db.execute(END, (holder,))
            return True

        return await self._change(
            approval_id, lambda record: released(record, execution_id), change
        )

    async def withdraw(self, approval_id: str, /, now: datetime) -> ApprovalRecord:
        """See `ApprovalStore.withdraw`."""

        def change(db: Db, id_: str, row: Row) -> bool:
            return db.execute(_WITHDRAW, (*row.digests, id_, ticks(now))).rowcount == 1

        return await self._change(approval_id, lambda record: withdrawn(record, now), change)

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

    async def altered(self) -> list[str]:
        """Return the ids of all records that are not as they were written, oldest first.

        Each is read again, a page at a time, in constant memory; writers go on meanwhile.
        """
        found: list[str] = []
        last: str | None = None
        while True:
            page = partial(altered_after, last=last, size=_PAGE)
            more, last = await self._database.transact(page)
            found += more
            if last is None:
                return found

    async def _change(
        self,
        approval_id: str,
        rule: Callable[[ApprovalRecord], ApprovalRecord],
        change: Callable[[Db, str, Row], bool],
        *,
        first: Callable[[Db], None] = _nothing,
    ) -> ApprovalRecord:
        """Make a change and return what the record became.

        Args:
            approval_id: Which record.
            rule: What it becomes, or why it cannot.
            change: Writes that row, comparing once more; tells whether it did.
            first: What else has to be locked.

        Raises:
            CapabilityError: APPROVAL_NOT_FOUND, or what `rule` raises.
            LookupError: The record was altered.
        """
        id_ = column(approval_id)

        def run(db: Db) -> ApprovalRecord:
            first(db)
            found = read_row(db, _ONE + self._database.lock_row, (id_,))
            if found is None:
                raise CapabilityError(ErrorCode.APPROVAL_NOT_FOUND)
            row, record = found
            record = rule(record)
            if not change(db, id_, row.after(record)):
                raise LookupError("the row is not what was read under its lock")
            return record

        return await self._database.transact(run)
