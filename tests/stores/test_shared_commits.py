"""Transactions that wait at the same time on a file share one commit, and nothing else."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter

import anyio
import pytest

from capgate.stores import Store
from capgate.stores.sqlite import Sqlite
from capgate.testing.sample_approvals import sample


class Counting:
    """A connection that counts its statements, and may refuse one of them."""

    def __init__(self, connection, counts, refused):
        self._connection, self._counts, self._refused = connection, counts, refused

    def execute(self, sql, values=()):
        self._counts[sql.split()[0]] += 1
        if self._refused and sql.startswith(self._refused[0]):
            self._refused.pop(0)
            raise sqlite3.OperationalError("refused")
        return self._connection.execute(sql, values)

    def close(self):
        self._connection.close()


@pytest.fixture
async def counted(file_url, monkeypatch):
    """A store on a file, the count of its statements, and the list of those to refuse."""
    counts, refused = Counter(), []
    connect = Sqlite.connect
    monkeypatch.setattr(Sqlite, "connect", lambda self: Counting(connect(self), counts, refused))
    async with Store(file_url) as store:
        counts.clear()
        yield store, counts, refused


async def at_once(store, *works):
    """Start all while the thread is busy, and return what each returned or raised."""
    ended, busy = [None] * len(works), threading.Event()
    store._database._worker.post(busy.wait)

    async def run(place, work):
        try:
            ended[place] = await work()
        except Exception as error:
            ended[place] = error

    async with anyio.create_task_group() as group:
        for place, work in enumerate(works):
            group.start_soon(run, place, work)
        await anyio.wait_all_tasks_blocked()
        busy.set()
    return ended


def creating(store, number):
    """The creation of one approval."""
    return lambda: store.approvals.create(sample(f"apr_{number}"))


async def test_what_waits_at_once_shares_a_commit(counted):
    """Two hundred creations take far fewer commits, and all of them are there."""
    store, counts, _ = counted
    ended = await at_once(store, *(creating(store, number) for number in range(200)))
    assert ended == [None] * 200
    assert counts["COMMIT"] == 4  # of 64 at most
    found = {record.id for record in await store.approvals.find(limit=500)}
    assert found == {f"apr_{number}" for number in range(200)}


async def test_one_alone_has_a_transaction_of_its_own(counted):
    """No savepoint is made for it."""
    store, counts, _ = counted
    await store.approvals.create(sample("apr_1"))
    assert (counts["BEGIN"], counts["COMMIT"], counts["SAVEPOINT"]) == (1, 1, 0)


async def test_one_that_is_refused_takes_nothing_with_it(counted):
    """Its own changes are undone; those before and behind it stay."""
    store, counts, _ = counted

    async def half():
        def work(db):
            db.execute("DELETE FROM capgate_approvals")
            raise ValueError("on second thought")

        await store._database.transact(work)

    works = [creating(store, number) for number in range(20)]
    ended = await at_once(store, *works[:10], half, *works[10:])
    assert [str(each) for each in ended if each is not None] == ["on second thought"]
    assert (counts["SAVEPOINT"], counts["COMMIT"]) == (21, 1)
    assert len(await store.approvals.find()) == 20


async def test_one_that_breaks_the_connection_breaks_nobody_else(counted):
    """Each is done on its own then."""
    store, _, _ = counted

    async def broken():
        def work(db):
            raise sqlite3.OperationalError("broken")

        await store._database.transact(work)

    works = [creating(store, number) for number in range(20)]
    ended = await at_once(store, *works[:10], broken, *works[10:])
    assert [str(each) for each in ended if each is not None] == ["broken"]
    assert len(await store.approvals.find()) == 20


async def test_a_commit_that_fails_fails_for_all_of_it(counted):
    """Whoever shared it is told; nothing of it is there, and the store goes on."""
    store, counts, refused = counted
    await store.approvals.create(sample("apr_first"))
    counts.clear()
    refused.append("COMMIT")
    ended = await at_once(store, *(creating(store, number) for number in range(20)))
    failed = [each for each in ended if each is not None]
    assert [str(each) for each in failed] == ["refused"] * 20
    assert len(await store.approvals.find()) == 1
    await store.approvals.create(sample("apr_after"))


async def test_a_caller_that_left_is_left_out(counted):
    """What was cancelled before it began is not done with the others."""
    store, _, _ = counted
    busy = threading.Event()
    store._database._worker.post(busy.wait)
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(creating(store, number))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.approvals.create(sample("apr_gone"))
        busy.set()
    assert scope.cancelled_caught
    assert await store.approvals.get("apr_gone") is None
    assert len(await store.approvals.find()) == 20


async def test_a_lock_is_waited_for_once_for_all(counted, file_url, monkeypatch):
    """Whoever waits for the same lock is told at the same time that it was in vain."""
    store, counts, refused = counted
    refused.append("BEGIN")
    ended = await at_once(store, *(creating(store, number) for number in range(20)))
    assert [str(each) for each in ended] == ["refused"] * 20
    assert counts["BEGIN"] == 1
    await store.approvals.create(sample("apr_after"))


async def test_a_store_stays_where_it_was_made(tmp_path, monkeypatch):
    """Wherever the process goes, the file is the same, also on a new connection."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    async with Store("sqlite:///capgate.db") as store:
        await store.approvals.create(sample("apr_1"))
        monkeypatch.chdir(tmp_path / "there")
        store._database._worker.post(store._database._disconnect)
        assert await store.approvals.get("apr_1") == sample("apr_1")
        assert (await store.audit.verify()).ok
    assert list((tmp_path / "there").iterdir()) == []
