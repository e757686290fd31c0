"""Whatever goes wrong in a database, each change is whole or not there, and the store recovers."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from capgate.audit import AuditEvent
from capgate.idempotency import Claimed, StoredOutcome
from capgate.stores import Store
from capgate.stores.database import Database
from capgate.testing.sample_approvals import NOW, open_record, sample, yes

TABLES = [
    "capgate_approvals",
    "capgate_decisions",
    "capgate_executions",
    "capgate_idempotency",
    "capgate_audit",
    "capgate_audit_heads",
]
FAILURES = (sqlite3.Error, psycopg.Error)


def event(kind, execution_id):
    """An event of one execution."""
    return AuditEvent(kind, NOW, execution_id=execution_id)


async def waiting(store):
    """A request, an approved one, a spent one, and a key in flight."""
    await store.approvals.create(sample("apr_pending"))
    await open_record(store.approvals, "apr_yes", yes("mia"))
    await open_record(store.approvals, "apr_spent", yes("mia"))
    start = event("capability.started", "exe_1")
    await store.approvals.consume("apr_spent", "exe_1", NOW, started=start)
    await store.idempotency.begin("k", "hash", "exe_k", NOW, 3600)


class Change(NamedTuple):
    """One change, and how many statements it is at least."""

    make: Callable[[Store], Awaitable[object]]
    statements: int


START = event("capability.started", "exe_2")
HELD = event("capability.started", "exe_k")
ENDED = StoredOutcome("exe_k", "completed")
LATER = sample("x").expires_at
OPS = yes("ops").by
CHANGES = {
    "create": Change(lambda s: s.approvals.create(sample("apr_new")), 1),
    "decide": Change(lambda s: s.approvals.decide("apr_pending", yes("mia"), NOW), 4),
    "spend": Change(lambda s: s.approvals.consume("apr_yes", "exe_2", NOW, started=START), 7),
    "release": Change(lambda s: s.approvals.release("apr_spent", "exe_1"), 4),
    "withdraw": Change(lambda s: s.approvals.withdraw("apr_pending", NOW), 3),
    "expire": Change(lambda s: s.approvals.expire_due(LATER), 1),
    "begin": Change(lambda s: s.idempotency.begin("new", "hash", "exe_3", NOW, 3600), 3),
    "start": Change(lambda s: s.idempotency.start("k", started=HELD, now=NOW), 4),
    "complete": Change(lambda s: s.idempotency.complete("k", ENDED), 1),
    "audit": Change(lambda s: s.audit(event("capability.completed", "exe_1")), 4),
    "settle": Change(lambda s: s.settle("exe_1", "none", by=OPS), 6),
    "trim": Change(lambda s: s.audit.trim(LATER, by=OPS), 4),
}


def everything(ask):
    """All rows of all tables."""
    return {table: sorted(map(repr, ask(f"SELECT * FROM {table}"))) for table in TABLES}


class Dying:
    """A connection that breaks at its n-th statement, as one does whose server is gone."""

    def __init__(self, connection, error, left):
        self._connection, self._error, self._left = connection, error, left

    def execute(self, sql, values=()):
        self._left -= 1
        if self._left < 0:
            self.close()
            raise self._error("gone")
        return self._connection.execute(sql, values)

    def close(self):
        self._connection.close()


@contextmanager
def dying(monkeypatch, after):
    """Let every new connection break after this many statements."""
    connect = Database.connect

    def short(self):
        return Dying(connect(self), self.errors, after)

    with monkeypatch.context() as patch:
        patch.setattr(Database, "connect", short)
        yield


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_that_dies_midway_is_not_there(url, ask, monkeypatch, name):
    """SI-5: at whichever statement it breaks, nothing stays of it, and afterwards it works."""
    change = CHANGES[name]
    async with Store(url) as store:
        await waiting(store)
    before = everything(ask)
    for statements in range(change.statements + 1):  # BEGIN is one more
        with dying(monkeypatch, statements):
            broken = Store(url)
            with pytest.raises(FAILURES):
                await change.make(broken)
            await broken.aclose()
        assert everything(ask) == before, statements
    async with Store(url) as store:
        await change.make(store)
        assert (await store.audit.verify()).ok
        assert await store.approvals.altered() == []
    assert everything(ask) != before


@contextmanager
def locked(url, monkeypatch):
    """Somebody else holds every lock."""
    for kind in ("sqlite", "postgres"):
        monkeypatch.setattr(f"capgate.stores.{kind}.WAIT_SECONDS", 0.05)
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            yield
        return
    with psycopg.connect(url) as db:
        db.execute(f"LOCK TABLE {', '.join(TABLES)} IN ACCESS EXCLUSIVE MODE")
        yield


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_that_waits_for_a_lock_in_vain_is_not_there(url, ask, monkeypatch, name):
    """It fails after a while; once the lock is gone it works."""
    async with Store(url) as store:
        await waiting(store)
    before = everything(ask)
    with locked(url, monkeypatch):
        barred = Store(url)
        with pytest.raises(FAILURES):
            await CHANGES[name].make(barred)
    assert everything(ask) == before
    await CHANGES[name].make(barred)
    await barred.aclose()
    assert everything(ask) != before


@contextmanager
def shared_folder():
    """A folder that anybody can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def read_only(file):
    """Nobody may write the file, or beside it: not even root, who acts as nobody meanwhile."""
    file.chmod(0o444)
    file.parent.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        file.parent.chmod(0o755)
        file.chmod(0o600)


@pytest.mark.parametrize("name", CHANGES)
async def test_a_read_only_file_is_an_error_and_stays_as_it_is(name):
    """Nothing is written, and the error says why."""
    with shared_folder() as folder:
        file = folder / "capgate.db"
        async with Store(f"sqlite:///{file}") as store:
            await waiting(store)
        before = file.read_bytes()
        with read_only(file):
            store = Store(f"sqlite:///{file}")
            with pytest.raises(sqlite3.OperationalError, match=r"readonly|unable to open"):
                await CHANGES[name].make(store)
            await store.aclose()
        assert file.read_bytes() == before
        async with Store(f"sqlite:///{file}") as store:
            await CHANGES[name].make(store)


async def test_a_connection_that_drops_comes_back(server, schema_url, ask_schema, monkeypatch):
    """Every change fails once when the server closes its connection, and works the next time."""
    monkeypatch.setattr("capgate.stores.postgres._THREADS", 1)
    async with Store(schema_url) as store:
        await waiting(store)
        for name in ("create", "begin", "audit", "decide", "spend", "complete"):
            before = everything(ask_schema)
            with psycopg.connect(server, autocommit=True) as admin:
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'capgate'"
                )
            with pytest.raises(psycopg.OperationalError):
                await CHANGES[name].make(store)
            assert everything(ask_schema) == before
            await CHANGES[name].make(store)
        assert await store.idempotency.begin("other", "hash", "exe_9", NOW, 60) == Claimed()


COPIES = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
    INSERT INTO capgate_approvals (id, capability_id, actor_id, expires_at, quorum, body, status,
        digest, digest_expired)
    SELECT 'copy_' || i, capability_id, actor_id, expires_at, quorum, body, status, digest,
        digest_expired
    FROM capgate_approvals, n WHERE id = 'apr_1'"""


async def test_a_hundred_thousand_waiting_approvals_cost_no_memory(file_url, tmp_path):
    """They are in the file: opening it, using one and expiring all of them hold nothing."""
    async with Store(file_url) as store:
        await store.approvals.create(sample("apr_1"))
    with closing(sqlite3.connect(tmp_path / "capgate.db", isolation_level=None)) as db:
        db.execute(COPIES)
    tracemalloc.start()
    try:
        async with Store(file_url) as store:
            await store.approvals.decide("apr_1", yes("mia"), NOW)
            await store.approvals.consume("apr_1", "exe_1", NOW)
            assert len(await store.approvals.find(limit=10)) == 10
            assert await store.approvals.expire_due(LATER) == 100_000
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * 100_000  # ten bytes each would be too many
