"""Databases for the tests: a fresh file, and a PostgreSQL server that is started for them."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

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
    folder = Path(tempfile.mkdtemp(prefix="capgate-pg-"))
    user = {"user": "postgres"} if os.geteuid() == 0 else {}
    if user:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    port = spare_port()

    def run(name, *arguments):
        subprocess.run(
            [binaries / name, "-D", folder / "data", *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            **user,
        )

    run("initdb", "--auth=trust", "--username=capgate", "--no-sync", "--encoding=UTF8")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    run("pg_ctl", "-w", "-l", folder / "log", "-o", options, "start")
    yield f"postgresql://capgate@127.0.0.1:{port}/postgres"
    run("pg_ctl", "-w", "-m", "immediate", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def find_binaries():
    """Where PostgreSQL's server programs are, None if nowhere."""
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if shutil.which("pg_config"):
        asked = subprocess.run(["pg_config", "--bindir"], capture_output=True, check=True)
        candidates.insert(0, Path(asked.stdout.decode().strip()))
    return next((each for each in candidates if (each / "initdb").exists()), None)


def spare_port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
            with sqlite3.connect(url.removeprefix("sqlite:///")) as db:
                return db.execute(statement).fetchall()
        import psycopg  # noqa: PLC0415  the driver is optional

        with psycopg.connect(url, autocommit=True) as db:
            found = db.execute(statement)
            return found.fetchall() if found.description else []

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
        assert await store.idempotency.start(key, started(execution_id), NOW)
        return answer

    return claim_and_start


@pytest.fixture
def spend():
    """What a process does that spends an approval and dies in its handler."""

    async def consume(store, approval_id, execution_id="exe_dead"):
        event = started(execution_id)
        return await store.approvals.consume(approval_id, execution_id, NOW, started=event)

    return consume
