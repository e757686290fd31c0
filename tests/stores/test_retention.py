"""Exporting a chain, cutting off its oldest records, and what is found missing."""

from __future__ import annotations

import json
import stat
import tracemalloc
from datetime import UTC, datetime, timedelta

import anyio
import anyio.from_thread
import psycopg
import pytest

from capgate import Actor
from capgate.audit import AuditEvent, verify_chain
from capgate.stores.reading import Rows
from capgate.stores.sqlite import Sqlite

OPS = Actor("ops")
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def chain(store):
    """A store with ten records, a day apart."""
    for day in range(10):
        at = START + timedelta(days=day)
        await store.audit(AuditEvent("capability.requested", at, execution_id=f"exe_{day}"))
    return store.audit


def checked(path):
    """What the verification of an exported file says."""
    with path.open("rb") as file:
        return verify_chain(file)


async def test_an_export_is_the_chain_line_by_line(chain, tmp_path):
    """It can be verified on its own, and is its owner's alone."""
    path = tmp_path / "audit.jsonl"
    report = await chain.export(path)
    assert report == checked(path) == await chain.verify()
    assert (report.ok, report.checked, report.head) == (True, 10, checked(path).head)
    assert json.loads(path.read_text().splitlines()[3])["execution_id"] == "exe_3"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_an_export_overwrites_nothing(chain, tmp_path):
    """A file that is there stays as it is."""
    path = tmp_path / "audit.jsonl"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        await chain.export(path)
    assert path.read_text() == "mine"


async def test_an_altered_chain_is_exported_as_it_is(chain, ask, tmp_path):
    """The report says where it breaks; the records behind that are in the file too."""
    ask("UPDATE capgate_audit SET record = replace(record, 'exe_3', 'exe_9') WHERE seq = 4")
    path = tmp_path / "audit.jsonl"
    report = await chain.export(path)
    assert (report.ok, report.first_bad) == (False, 4)
    assert len(path.read_text().splitlines()) == 10


async def test_a_cancelled_export_leaves_no_file(chain, tmp_path, monkeypatch):
    """Half an export would look like a whole one that was cut off."""
    path, read, made = tmp_path / "audit.jsonl", Rows.read, []

    def cut_short(self):
        for row in read(self):
            made.append(path.exists())
            anyio.from_thread.run_sync(scope.cancel)
            anyio.from_thread.check_cancelled()
            yield row

    monkeypatch.setattr(Rows, "read", cut_short)
    with anyio.CancelScope() as scope:
        await chain.export(path)
    assert scope.cancelled_caught
    assert made == [True]
    assert not path.exists()


async def test_a_broken_chain_is_not_trimmed(chain, ask):
    """What is wrong with it would be gone; it can be exported and looked at first."""
    ask("UPDATE capgate_audit SET record = replace(record, 'exe_2', 'exe_9') WHERE seq = 3")
    with pytest.raises(ValueError, match="breaks at record 3"):
        await chain.trim(START + timedelta(days=4), by=OPS)
    assert (await chain.verify()).first_bad == 3


async def test_verifying_beside_writers_and_trims_never_alarms(store, chain):
    """A chain and its end are read as they stand at one moment."""
    reports = []

    async def write():
        for number in range(60):
            await chain(AuditEvent("capability.requested", START, execution_id=f"new_{number}"))

    async def trim():
        for _ in range(10):
            await chain.trim(datetime.now(UTC), by=OPS)

    async def verify():
        for _ in range(30):
            report = await chain.verify()
            reports.append(report.ok)

    async with anyio.create_task_group() as group:
        for work in (write, trim, verify, verify):
            group.start_soon(work)
    assert reports == [True] * 60
    assert (await chain.verify()).trimmed > 0


async def test_a_trimmed_chain_stays_verifiable(chain, ask):
    """What is older is gone, and a record says up to where, and who removed it."""
    assert await chain.trim(START + timedelta(days=4), by=OPS) == 4
    report = await chain.verify()
    assert (report.ok, report.checked, report.trimmed) == (True, 7, 4)
    told = json.loads(ask("SELECT record FROM capgate_audit ORDER BY seq DESC LIMIT 1")[0][0])
    assert (told["type"], told["actor"]["id"], told["data"]["seq"]) == ("audit.trimmed", "ops", 4)


async def test_a_chain_can_be_trimmed_again_and_goes_on(chain, tmp_path):
    """Each cut is vouched for by its own record, also in an export."""
    for days in (2, 5, 9):
        await chain.trim(START + timedelta(days=days), by=OPS)
    await chain(AuditEvent("capability.requested", START, execution_id="exe_new"))
    path = tmp_path / "audit.jsonl"
    report = await chain.export(path)
    assert (report.ok, report.checked, report.trimmed) == (True, 5, 9)
    assert checked(path) == report


async def test_nothing_old_is_nothing_trimmed(chain):
    """No record is written for a cut that removes nothing."""
    assert await chain.trim(START, by=OPS) == 0
    assert (await chain.verify()).checked == 10


async def test_everything_can_be_trimmed(chain):
    """What is left is the record that says so."""
    assert await chain.trim(datetime.now(UTC), by=OPS) == 10
    report = await chain.verify()
    assert (report.ok, report.checked, report.trimmed) == (True, 1, 10)


LOSSES = {
    "first": ("DELETE FROM capgate_audit WHERE seq <= 2", 1),
    "middle": ("DELETE FROM capgate_audit WHERE seq = 5", 5),
    "last": ("DELETE FROM capgate_audit WHERE seq = 10", 10),
    "all": ("DELETE FROM capgate_audit", 1),
    "head": ("DELETE FROM capgate_audit_heads", 11),
    "more than trimmed": ("DELETE FROM capgate_audit WHERE seq <= 3", 1),
}


@pytest.mark.parametrize("loss", LOSSES)
async def test_records_that_are_missing_are_found(chain, ask, loss):
    """At the beginning, in the middle and at the end, also behind a cut."""
    statement, place = LOSSES[loss]
    if loss == "more than trimmed":
        await chain.trim(START + timedelta(days=2), by=OPS)
    ask(statement)
    report = await chain.verify()
    assert (report.ok, report.first_bad) == (False, place)


@pytest.mark.parametrize(
    ("before", "by", "error"),
    [
        ("2026-01-01", OPS, TypeError),
        (None, OPS, TypeError),
        (datetime(2026, 1, 1), OPS, ValueError),  # noqa: DTZ001  that is the mistake
        (START, "ops", TypeError),
        (START, Actor.anonymous(), ValueError),
    ],
)
async def test_a_wrong_trimming_is_refused_and_removes_nothing(chain, before, by, error):
    """It says what is wrong."""
    with pytest.raises(error):
        await chain.trim(before, by=by)
    assert (await chain.verify()).checked == 10


async def peak_of_verifying(store, count):
    """The most memory that verifying so many records takes, in bytes."""
    await store.audit.write_many(
        [AuditEvent("capability.requested", START, execution_id="exe") for _ in range(count)]
    )
    tracemalloc.start()
    try:
        assert (await store.audit.verify()).ok
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_verifying_takes_constant_memory(store, monkeypatch):
    """Ten times as many records take no more of it; a server sends them in pages."""
    names, cursor = [], psycopg.Connection.cursor
    monkeypatch.setattr(
        psycopg.Connection,
        "cursor",
        lambda self, name="", **more: names.append(name) or cursor(self, name, **more),
    )
    few = await peak_of_verifying(store, 1_500)
    many = await peak_of_verifying(store, 13_500)
    assert many < 1.5 * few + 100_000
    assert isinstance(store._database, Sqlite) or "capgate" in names
