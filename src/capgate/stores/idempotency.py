"""Idempotency keys in a database; what each answer means is in `capgate.idempotency`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final

from capgate.call import Duration, to_seconds
from capgate.idempotency import (
    Claim,
    Claimed,
    Conflict,
    InFlight,
    Replay,
    StoredOutcome,
    Suspended,
)
from capgate.stores.opening import database_of
from capgate.stores.text import column, dump, load, ticks, uncolumn

if TYPE_CHECKING:
    from datetime import datetime

    from capgate.audit import AuditEvent
    from capgate.stores.chain import Chain
    from capgate.stores.database import Database, Db

_FORGET: Final = "DELETE FROM capgate_idempotency WHERE key = ? AND expires_at <= ?"
_CLAIM: Final = """
    INSERT INTO capgate_idempotency (key, input_hash, execution_id, since, expires_at, state)
    VALUES (?, ?, ?, ?, ?, 'in-flight') ON CONFLICT DO NOTHING"""
_READ: Final = """
    SELECT input_hash, execution_id, state, approval_id, outcome
    FROM capgate_idempotency WHERE key = ?"""
_SUSPEND: Final = """
    UPDATE capgate_idempotency SET state = 'suspended', approval_id = ?1
    WHERE key = ?2 AND (
        (state = 'suspended' AND approval_id = ?4)
        OR (state = 'in-flight' AND (CAST(?3 AS TEXT) IS NULL OR execution_id = ?3)))"""
_COMPLETE: Final = """
    UPDATE capgate_idempotency SET state = 'ended', outcome = ?1
    WHERE key = ?2 AND (
        state = 'suspended' OR (state = 'in-flight' AND execution_id = ?3))"""
_START: Final = """
    UPDATE capgate_idempotency SET started_at = ?
    WHERE key = ? AND state = 'in-flight' AND execution_id = ? AND started_at IS NULL"""
_RELEASE: Final = """
    DELETE FROM capgate_idempotency
    WHERE key = ? AND execution_id = ? AND state IN ('in-flight', 'suspended')"""


class SqlIdempotency:
    """An `IdempotencyStore` in a database, safe for any number of tasks, threads and processes.

    Args:
        database: `sqlite:///FILE` or `postgresql://…`, or a database that other stores use too.
        chain: The audit on the same database, for `Store`. A key is marked together with the event
            that its handler starts.

    Raises:
        ConfigurationError: Not a store's URL.
    """

    durable: ClassVar[bool] = True

    __slots__ = ("_chain", "_database")

    def __init__(self, database: str | Database, *, chain: Chain | None = None) -> None:
        """See the class."""
        self._database = database_of(database)
        self._chain = chain

    @property
    def keeps_starts(self) -> bool:
        """See `StartKeepingKeys`."""
        return self._chain is not None

    async def aclose(self) -> None:
        """Close the database, and every other store on it."""
        await self._database.aclose()

    async def begin(
        self, key: str, input_hash: str, execution_id: str, now: datetime, ttl: Duration
    ) -> Claim:
        """See `IdempotencyStore.begin`."""
        until = ticks(now + timedelta(seconds=to_seconds(ttl, "ttl")))

        def claim(db: Db) -> Claim:
            name, at = column(key), ticks(now)
            db.execute(_FORGET, (name, at))
            db.execute(self._database.purge, (at,))
            entry = (name, column(input_hash), column(execution_id), at, until)
            while db.execute(_CLAIM, entry).rowcount == 0:
                row = db.execute(_READ, (name,)).fetchone()
                if row is not None:
                    return _answer(row, input_hash)
                # Released by another between the two statements: it is free after all.
            return Claimed()

        return await self._database.transact(claim)

    async def start(self, key: str, *, started: AuditEvent, now: datetime) -> bool:
        """See `StartKeepingKeys.start`."""
        values = (ticks(now), column(key), column(started.execution_id or ""))

        def run(db: Db) -> bool:
            if self._chain is not None:
                self._chain.take_turn(db)
            if db.execute(_START, values).rowcount == 0:
                return False
            if self._chain is not None:
                self._chain.append(db, [started.to_dict()])
            return True

        return await self._database.transact(run)

    async def suspend(
        self,
        key: str,
        approval_id: str,
        *,
        execution_id: str | None = None,
        replaces: str | None = None,
    ) -> bool:
        """See `IdempotencyStore.suspend`."""
        texts = (approval_id, key, execution_id, replaces)
        values = tuple(None if text is None else column(text) for text in texts)
        return await self._changed(_SUSPEND, values)

    async def complete(self, key: str, outcome: StoredOutcome) -> bool:
        """See `IdempotencyStore.complete`."""
        return await self._changed(
            _COMPLETE, (dump(outcome.to_dict()), column(key), column(outcome.execution_id))
        )

    async def release(self, key: str, execution_id: str) -> bool:
        """See `IdempotencyStore.release`."""
        return await self._changed(_RELEASE, (column(key), column(execution_id)))

    async def _changed(self, statement: str, values: tuple[object, ...]) -> bool:
        return await self._database.transact(lambda db: db.execute(statement, values).rowcount == 1)


def _answer(row: tuple[str, str, str, str, str], input_hash: str) -> Claim:
    known, execution_id, state, approval_id, outcome = row
    if known != column(input_hash):
        return Conflict()
    if state == "suspended":
        return Suspended(uncolumn(approval_id), uncolumn(execution_id))
    return Replay(StoredOutcome.from_dict(load(outcome))) if state == "ended" else InFlight()
