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
from capgate.stores.sqlite import Sqlite, database_of
from capgate.stores.text import dump, load, ticks

if TYPE_CHECKING:
    import sqlite3
    from datetime import datetime

_FORGET: Final = "DELETE FROM capgate_idempotency WHERE expires_at <= ?"
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
        OR (state = 'in-flight' AND (?3 IS NULL OR execution_id = ?3)))"""
_COMPLETE: Final = """
    UPDATE capgate_idempotency SET state = 'ended', outcome = ?1
    WHERE key = ?2 AND (
        state = 'suspended' OR (state = 'in-flight' AND execution_id = ?3))"""
_RELEASE: Final = """
    DELETE FROM capgate_idempotency
    WHERE key = ? AND execution_id = ? AND state IN ('in-flight', 'suspended')"""


class SqlIdempotency:
    """An `IdempotencyStore` in a database, safe for any number of tasks, threads and processes.

    Args:
        database: `sqlite:///FILE`, or a database that other stores use too.

    Raises:
        ConfigurationError: Not a store's URL.
    """

    durable: ClassVar[bool] = True

    __slots__ = ("_database",)

    def __init__(self, database: str | Sqlite) -> None:
        """See the class."""
        self._database = database_of(database)

    async def aclose(self) -> None:
        """Close the database, and every other store on it."""
        await self._database.aclose()

    async def begin(
        self, key: str, input_hash: str, execution_id: str, now: datetime, ttl: Duration
    ) -> Claim:
        """See `IdempotencyStore.begin`."""
        until = ticks(now + timedelta(seconds=to_seconds(ttl, "ttl")))

        def claim(db: sqlite3.Connection) -> Claim:
            db.execute(_FORGET, (ticks(now),))
            entry = (key, input_hash, execution_id, ticks(now), until)
            if db.execute(_CLAIM, entry).rowcount == 1:
                return Claimed()
            return _answer(db.execute(_READ, (key,)).fetchone(), input_hash)

        return await self._database.transact(claim)

    async def suspend(
        self,
        key: str,
        approval_id: str,
        *,
        execution_id: str | None = None,
        replaces: str | None = None,
    ) -> bool:
        """See `IdempotencyStore.suspend`."""
        return await self._changed(_SUSPEND, (approval_id, key, execution_id, replaces))

    async def complete(self, key: str, outcome: StoredOutcome) -> bool:
        """See `IdempotencyStore.complete`."""
        return await self._changed(_COMPLETE, (dump(outcome.to_dict()), key, outcome.execution_id))

    async def release(self, key: str, execution_id: str) -> bool:
        """See `IdempotencyStore.release`."""
        return await self._changed(_RELEASE, (key, execution_id))

    async def _changed(self, statement: str, values: tuple[object, ...]) -> bool:
        return await self._database.transact(lambda db: db.execute(statement, values).rowcount == 1)


def _answer(row: tuple[str, str, str, str, str], input_hash: str) -> Claim:
    known, execution_id, state, approval_id, outcome = row
    if known != input_hash:
        return Conflict()
    if state == "suspended":
        return Suspended(approval_id, execution_id)
    return Replay(StoredOutcome.from_dict(load(outcome))) if state == "ended" else InFlight()
