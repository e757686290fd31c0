"""The database itself: its URL, its schema, its thread, and what is told when it fails."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing

import anyio
import psycopg
import pytest

from capgate.errors import ConfigurationError
from capgate.stores import SchemaStatus, SqlApprovals, Store, migrate, status
from capgate.testing.sample_approvals import sample


@pytest.mark.parametrize(
    "url",
    [
        None,
        3,
        b"sqlite:///a.db",
        "",
        "a.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://host/a.db",
        "sqlite:///a.db?mode=ro",
        "sqlite:///a%00.db",
        "sqlite:///%ff",
        "postgresql://me:secret@host/db?nonsense=1",
        "postgresql://[me:secret@host/db",
        "mysql://host/db",
        "sqlite://[",
    ],
)
@pytest.mark.parametrize("opener", [Store, SqlApprovals, migrate, status])
def test_a_wrong_url_is_refused_at_once(url, opener):
    """It says what is wrong and never quotes the URL, which may hold a password."""
    with pytest.raises(ConfigurationError) as refused:
        opener(url)
    assert [issue.code for issue in refused.value.issues] == ["STORE_URL_INVALID"]
    assert "secret" not in str(refused.value)


def test_migrating_makes_a_database_once(url):
    """The first time makes the tables; after that there is nothing to do."""
    assert migrate(url) == migrate(url) == status(url)
    assert status(url).current


def test_a_new_file_is_its_owners_alone(file_url, tmp_path):
    """Approvals hold inputs: nobody else may read them."""
    migrate(file_url)
    assert (tmp_path / "capgate.db").stat().st_mode & 0o777 == 0o600


def test_an_empty_schema_is_at_no_version(schema_url):
    """Asking where a database stands makes no tables."""
    assert status(schema_url) == status(schema_url) == SchemaStatus(0, 1)


def test_the_status_of_nothing_is_an_error_and_makes_nothing(file_url, tmp_path):
    """Asking where a database stands does not make one."""
    with pytest.raises(sqlite3.OperationalError):
        status(file_url)
    assert list(tmp_path.iterdir()) == []


def age(url, ask):
    """Make a database look as if a newer version had written it."""
    migrate(url)
    sqlite = url.startswith("sqlite")
    ask("PRAGMA user_version = 99" if sqlite else "UPDATE capgate_schema SET version = 99")


def test_a_newer_database_is_refused(url, ask):
    """What a newer version wrote is not touched, and it is said what to do."""
    age(url, ask)
    with pytest.raises(ConfigurationError, match="upgrade capgate"):
        migrate(url)
    assert status(url) == SchemaStatus(99, 1)


async def test_a_newer_database_is_refused_by_a_store(url, ask):
    """Opening one fails in the same words, each time."""
    age(url, ask)
    store = Store(url)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="upgrade capgate"):
            await store.open()
    await store.aclose()


def test_a_failed_step_leaves_nothing(file_url, tmp_path):
    """A database in which a step cannot be applied stays as it was."""
    with closing(sqlite3.connect(tmp_path / "capgate.db")) as db:
        db.execute("CREATE TABLE capgate_audit (mine TEXT)")
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate(file_url)
    with closing(sqlite3.connect(tmp_path / "capgate.db")) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("capgate_audit",)]


async def test_many_open_a_new_database_at_once(url):
    """Stores that open one missing file together all find it whole."""
    stores = [Store(url) for _ in range(8)]
    async with anyio.create_task_group() as group:
        for store in stores:
            group.start_soon(store.open)
    await stores[0].approvals.create(sample("apr_1"))
    assert await stores[7].approvals.get("apr_1") == sample("apr_1")
    for store in stores:
        await store.aclose()


async def test_a_store_ends_its_thread(url):
    """Closing waits for the thread; closing again does nothing."""
    before = set(threading.enumerate())
    store = Store(url)
    await store.open()
    threads = {each for each in threading.enumerate() if each.name == "capgate-store"} - before
    await store.aclose()
    await store.aclose()
    assert threads
    assert not any(each.is_alive() for each in threads)


async def test_a_store_that_was_never_opened_can_be_closed(file_url, tmp_path):
    """Nothing is made then."""
    await Store(file_url).aclose()
    assert list(tmp_path.iterdir()) == []


async def test_a_cancelled_caller_leaves_the_store_at_work(url):
    """What waits in line for the thread is dropped; what comes after is served."""
    async with Store(url) as store:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.approvals.create(sample("apr_1"))
        assert scope.cancelled_caught
        await store.approvals.create(sample("apr_2"))
        assert await store.approvals.get("apr_2") == sample("apr_2")


async def test_a_locked_database_is_an_error_and_recovers(file_url, tmp_path, monkeypatch):
    """A transaction that others hold too long fails; the next one finds the way free."""
    monkeypatch.setattr("capgate.stores.sqlite.WAIT_SECONDS", 0.05)
    async with Store(file_url) as store:
        holder = sqlite3.connect(tmp_path / "capgate.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await store.approvals.create(sample("apr_1"))
        holder.execute("ROLLBACK")
        holder.close()
        await store.approvals.create(sample("apr_1"))


async def test_a_full_disk_loses_the_write_alone(file_url, tmp_path):
    """What does not fit is refused as a whole, and what was there stays."""
    async with Store(file_url) as store:
        await store.approvals.create(sample("apr_1"))
        await store._database._worker.run(
            lambda: store._database._connected().execute("PRAGMA max_page_count = 1")
        )
        with pytest.raises(sqlite3.OperationalError, match="full"):
            await store.approvals.create(sample("apr_2", "x" * 1_000_000))
        # The connection that failed is given up, and its limit with it.
        assert await store.approvals.get("apr_2") is None
        assert await store.approvals.get("apr_1") == sample("apr_1")


async def test_a_folder_that_is_missing_is_an_error(tmp_path):
    """A store makes a file, not folders."""
    store = Store(f"sqlite:///{tmp_path / 'missing' / 'capgate.db'}")
    with pytest.raises(FileNotFoundError):
        await store.open()
    await store.aclose()


async def test_what_is_no_database_is_an_error(tmp_path):
    """A file of something else is not overwritten."""
    file = tmp_path / "notes.txt"
    file.write_text("not a database " * 100)
    store = Store(f"sqlite:///{file}")
    with pytest.raises(sqlite3.DatabaseError):
        await store.open()
    await store.aclose()
    assert file.read_text().startswith("not a database")


@pytest.mark.parametrize("text", ["\ud800", "\x00", "", "' OR 1=1 --"])
async def test_an_impossible_id_is_unknown(store, text):
    """What no record could be called is not found, and breaks nothing."""
    assert await store.approvals.get(text) is None
    assert await store.approvals.find(after=text) == []


async def test_a_dropped_connection_comes_back(server, schema_url, monkeypatch):
    """A transaction on a connection that the server closed fails; the next has a new one."""
    monkeypatch.setattr("capgate.stores.postgres._THREADS", 1)
    async with Store(schema_url) as store:
        await store.approvals.create(sample("apr_1"))
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'capgate'"
            )
        with pytest.raises(psycopg.OperationalError):
            await store.approvals.get("apr_1")
        assert await store.approvals.get("apr_1") == sample("apr_1")


async def test_a_server_that_is_not_there_is_an_error():
    """It is told at once, by the driver, and the store can still be closed."""
    store = Store("postgresql://capgate@127.0.0.1:1/none")
    with pytest.raises(psycopg.OperationalError):
        await store.open()
    await store.aclose()
