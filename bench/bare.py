"""The floor of the stores: the drivers alone, with the same statements and as many bytes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, Protocol

from bench.samples import DECISION, event, started
from capgate.audit import Head, link
from capgate.testing.sample_approvals import sample

FOREVER = 2**60
ROW = """
    SELECT id, capability_id, actor_id, expires_at, quorum, body, status, consumed_by,
        digest, digest_expired
    FROM capgate_approvals WHERE id = ?"""
DECISIONS = """
    SELECT place, approver, approved, body FROM capgate_decisions
    WHERE approval_id = ? ORDER BY place"""
CREATE = """
    INSERT INTO capgate_approvals (id, capability_id, actor_id, expires_at, quorum, body, status,
        consumed_by, digest, digest_expired)
    VALUES (?, 'orders.refund', 'dana', ?, 1, ?, 'pending', NULL, ?, ?)"""
DECIDE = """
    INSERT INTO capgate_decisions (approval_id, place, approver, approved, body)
    SELECT id, 0, '["user","mia"]', 1, ? FROM capgate_approvals
    WHERE id = ? AND status = 'pending' AND expires_at > 0 ON CONFLICT DO NOTHING"""
APPROVE = """
    UPDATE capgate_approvals SET digest = ?, digest_expired = ?,
        status = CASE WHEN quorum <= (
            SELECT count(*) FROM capgate_decisions WHERE approval_id = ? AND approved = 1
        ) THEN 'approved' ELSE status END
    WHERE id = ?"""
CONSUME = """
    UPDATE capgate_approvals
    SET digest = ?, digest_expired = '', status = 'consumed', consumed_by = ?
    WHERE id = ? AND status = 'approved' AND expires_at > 0"""
BEGUN = """
    INSERT INTO capgate_executions (execution_id, approval_id, since) VALUES (?, ?, 0)
    ON CONFLICT DO NOTHING"""
HEAD = "SELECT seq, hash FROM capgate_audit_heads WHERE stream = 's'"
APPEND = "INSERT INTO capgate_audit (stream, seq, hash, record) VALUES ('s', ?, ?, ?)"
MOVE = """
    INSERT INTO capgate_audit_heads (stream, seq, hash) VALUES ('s', ?, ?)
    ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, hash = excluded.hash"""
DIGEST = "0" * 64
BODY, ANSWER = json.dumps(sample("apr_100").to_dict()), json.dumps(DECISION.to_dict())
START = json.dumps(link(Head(), started("exe_apr_100").to_dict()))


class Driver(Protocol):
    """What both drivers can do."""

    begin: str
    for_update: str
    turn: str | None

    def execute(self, sql: str, values: tuple[object, ...] = ()) -> Any:
        """Run one statement written with `?`."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class BareSqlite:
    """`sqlite3` with the settings of the store."""

    begin = "BEGIN IMMEDIATE"
    for_update = ""
    turn = None

    def __init__(self, file: Path) -> None:
        """Connect."""
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        self.execute, self.close = connection.execute, connection.close


class BarePostgres:
    """psycopg, as it is."""

    begin = "BEGIN"
    for_update = " FOR UPDATE"
    turn = "SELECT pg_advisory_xact_lock(1)"

    def __init__(self, url: str) -> None:
        """Connect."""
        import psycopg  # noqa: PLC0415  an optional driver

        self._connection = psycopg.connect(url, autocommit=True)

    def execute(self, sql: str, values: tuple[object, ...] = ()) -> Any:
        """Run one statement written with `?`."""
        return self._connection.execute(sql.replace("?", "%s"), values or None)

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def approval(db: Driver, number: int) -> None:
    """Create, decide and spend one approval, with the event that its handler starts."""
    id_, execution_id = f"bare_{number}", f"exe_bare_{number}"
    _begin(db, turn=True)
    db.execute(CREATE, (id_, FOREVER, BODY, DIGEST, DIGEST))
    db.execute("COMMIT")
    _begin(db, turn=False)
    _read(db, id_)
    db.execute(DECIDE, (ANSWER, id_))
    db.execute(APPROVE, (DIGEST, DIGEST, id_, id_))
    db.execute("COMMIT")
    _begin(db, turn=True)
    _read(db, id_)
    db.execute(CONSUME, (DIGEST, execution_id, id_))
    db.execute(BEGUN, (execution_id, id_))
    db.execute(HEAD).fetchone()
    db.execute(APPEND, (number, DIGEST, START))
    db.execute(MOVE, (number, DIGEST))
    db.execute("COMMIT")


def approvals(db: Driver, numbers: range) -> None:
    """As many approvals as there are numbers, one after another."""
    for number in numbers:
        approval(db, number)


def events(db: Driver, count: int, group: int = 100) -> None:
    """Write events in groups, dumped but not chained."""
    for first in range(0, count, group):
        _begin(db, turn=True)
        for number in range(first, first + group):
            db.execute(APPEND, (FOREVER + number, DIGEST, json.dumps(event(number).to_dict())))
        db.execute("COMMIT")


def _begin(db: Driver, *, turn: bool) -> None:
    db.execute(db.begin)
    if turn and db.turn is not None:
        db.execute(db.turn)


def _read(db: Driver, id_: str) -> None:
    db.execute(ROW + db.for_update, (id_,)).fetchall()
    db.execute(DECISIONS, (id_,)).fetchall()
