"""Databases for the tests: a fresh file, and a PostgreSQL server that is started for them."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from itertools import count

import pytest

from bench.postgres import find_binaries, running
from capgate.audit import AuditEvent
from capgate.stores import Store

NUMBERS = count()
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def file_url(tmp_path):
    """The URL of a file that is not there yet."""
    return f"sqlite:///{tmp_path / 'capgate.db'}"


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server of our own, run as a user without privileges, and stopped at the end."""
    binaries = find_binaries()
    if binaries is None:
        missing = "PostgreSQL is not installed"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    with running(binaries, fsync=False) as url:
        yield url


@pytest.fixture
def schema_url(server):
    """The URL of an empty schema on the server."""
    import psycopg  # noqa: PLC0415  the driver is optional

    name = f"t{os.getpid()}_{next(NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
    return f"{server}?options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    """The URL of an empty database, of each kind."""
    if request.param == "sqlite":
        return request.getfixturevalue("file_url")
    return request.getfixturevalue("schema_url")


@pytest.fixture
def ask(url):
    """Run one statement behind a store's back; returns the rows, if there are any."""

    def run(statement):
        if url.startswith("sqlite"):
            with closing(
                sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
            ) as db:
                return db.execute(statement).fetchall()
        import psycopg  # noqa: PLC0415  the driver is optional

        with psycopg.connect(url, autocommit=True) as db:
            found = db.execute(statement)
            return found.fetchall() if found.description else []

    return run


@pytest.fixture
def ask_schema(schema_url):
    """The same, on the server."""

    def run(statement):
        import psycopg  # noqa: PLC0415  the driver is optional

        with psycopg.connect(schema_url, autocommit=True) as db:
            return db.execute(statement).fetchall()

    return run


@pytest.fixture
async def store(url):
    """An open store, closed after the test."""
    async with Store(url) as opened:
        yield opened


def started(execution_id):
    """The event of a handler that is about to be entered."""
    return AuditEvent("capability.started", NOW, execution_id=execution_id)


@pytest.fixture
def enter():
    """What a process does that claims a key and dies in its handler."""

    async def claim_and_start(store, execution_id, key, digest="hash"):
        answer = await store.idempotency.begin(key, digest, execution_id, NOW, 3600)
        assert await store.idempotency.start(key, started=started(execution_id), now=NOW)
        return answer

    return claim_and_start


@pytest.fixture
def spend():
    """What a process does that spends an approval and dies in its handler."""

    async def consume(store, approval_id, execution_id="exe_dead"):
        event = started(execution_id)
        return await store.approvals.consume(approval_id, execution_id, NOW, started=event)

    return consume
