"""SI-5: any single field that is changed behind a store's back shows."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from capgate.approvals import intact
from capgate.audit import AuditEvent
from capgate.stores import Store
from capgate.testing.sample_approvals import NOW, no, sample, yes

VALUES = st.one_of(st.integers(-(2**40), 2**40), st.text(max_size=8), st.none())
COLUMNS = {
    "capgate_approvals": [
        "id",
        "capability_id",
        "actor_id",
        "status",
        "expires_at",
        "quorum",
        "consumed_by",
        "body",
        "digest",
        "digest_expired",
    ],
    "capgate_decisions": ["approval_id", "place", "approver", "approved", "body"],
    "capgate_audit": ["stream", "seq", "hash", "record"],
}
STATUSES = ["pending", "half", "approved", "consumed", "rejected", "cancelled", "expired"]


async def kept(url, status):
    """Have a record that stands like this, and a few events."""
    async with Store(url) as store:
        await store.approvals.create(sample("apr_0"))
        await store.approvals.create(sample("apr_1", quorum=2 if status == "half" else 1))
        if status in {"half", "approved", "consumed", "expired"}:
            await store.approvals.decide("apr_1", yes("mia", comment="Fine."), NOW)
        if status == "consumed":
            await store.approvals.consume("apr_1", "exe_1", NOW)
        if status == "rejected":
            await store.approvals.decide("apr_1", no("mia"), NOW)
        if status == "cancelled":
            await store.approvals.withdraw("apr_1", NOW)
        if status == "expired":
            await store.approvals.expire_due(datetime(2027, 1, 1, tzinfo=UTC))
        for number in range(3):
            event = AuditEvent("capability.requested", NOW, execution_id=f"exe_{number}")
            await store.audit(event)


async def detect(url):
    """What the store says is altered, and whether its chain is whole."""
    async with Store(url) as store:
        return await store.approvals.altered(), await store.audit.verify()


def leaves(value, at=()):
    """The paths to everything in plain JSON that holds nothing else."""
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for key, each in items for leaf in leaves(each, (*at, key))]
    return [at]


def changed(draw, column, before):
    """Another value for a column: anything else, or one changed leaf of the JSON in it."""
    if column not in {"body", "record"} or draw(st.booleans()):
        return draw(VALUES)
    body = json.loads(before)
    *inner, last = draw(st.sampled_from([path for path in leaves(body) if path]))
    holder = body
    for key in inner:
        holder = holder[key]
    value = draw(VALUES)
    assume((type(value), value) != (type(holder[last]), holder[last]))
    holder[last] = value
    return json.dumps(body)


def alter(draw, file, table):
    """Change one field of one row, without the constraints that would forbid it."""
    column = draw(st.sampled_from(COLUMNS[table]))
    with closing(sqlite3.connect(file)) as db:
        count = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        assume(count)
        row = draw(st.integers(0, count - 1))
        where = f"LIMIT 1 OFFSET {row}"
        keys = {"capgate_approvals": "id", "capgate_audit": "seq"}.get(table, "place")
        key, before = db.execute(f"SELECT {keys}, {column} FROM {table} {where}").fetchone()
        value = changed(draw, column, before)
        new = value if column == keys else key
        try:
            db.execute(f"UPDATE {table} SET {column} = ? WHERE {keys} = ?", (value, key))
        except sqlite3.IntegrityError:
            assume(False)  # the database itself refuses it
        (after,) = db.execute(f"SELECT {column} FROM {table} WHERE {keys} = ?", (new,)).fetchone()
        assume((type(after), after) != (type(before), before))
        db.commit()


@pytest.mark.parametrize("table", COLUMNS)
@given(data=st.data(), status=st.sampled_from(STATUSES))
@settings(max_examples=60, deadline=None)
def test_any_single_changed_field_is_found(table, data, status):
    """Whatever column, and whatever is inside the JSON of it: exactly that table is found bad."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "capgate.db"
        url = f"sqlite:///{file}"
        anyio.run(kept, url, status)
        alter(data.draw, file, table)
        found, report = anyio.run(detect, url)
    assert bool(found) == (table != "capgate_audit")
    assert report.ok == (table != "capgate_audit")


@pytest.mark.parametrize("status", STATUSES)
async def test_what_nobody_altered_is_whole(url, status):
    """However a record stands; on both databases."""
    await kept(url, status)
    found, report = await detect(url)
    assert (found, report.ok) == ([], True)


FLIPS = [
    ("pending", "status = 'approved'"),
    ("half", "status = 'approved'"),
    ("rejected", "status = 'approved'"),
    ("cancelled", "status = 'pending'"),
    ("consumed", "status = 'approved'"),
    ("consumed", "consumed_by = NULL"),
    ("consumed", "consumed_by = 'exe_2'"),
    ("expired", "status = 'approved'"),
    ("approved", "expires_at = expires_at + 1000000000"),
    ("half", "quorum = 1"),
]


@pytest.mark.parametrize(("status", "change"), FLIPS)
async def test_an_altered_record_is_neither_used_nor_changed(url, ask, status, change):
    """SI-5: no decision, no spending and no withdrawal makes good what was altered."""
    await kept(url, status)
    ask(f"UPDATE capgate_approvals SET {change} WHERE id = 'apr_1'")
    async with Store(url) as store:
        for attempt in (
            partial(store.approvals.decide, "apr_1", yes("lee"), NOW),
            partial(store.approvals.consume, "apr_1", "exe_9", NOW),
            partial(store.approvals.withdraw, "apr_1", NOW),
            partial(store.approvals.release, "apr_1", "exe_1"),
        ):
            with pytest.raises(LookupError, match="altered"):
                await attempt()
        record = await store.approvals.get("apr_1")
        assert not intact(record)
        assert await store.approvals.altered() == ["apr_1"]


async def test_what_cannot_be_read_is_named(url, ask):
    """One row that holds no record is found among many; reading it says which it is."""
    await kept(url, "approved")
    ask("UPDATE capgate_approvals SET body = '{' WHERE id = 'apr_1'")
    async with Store(url) as store:
        assert await store.approvals.altered() == ["apr_1"]
        with pytest.raises(LookupError, match="apr_1"):
            await store.approvals.get("apr_1")
        assert [each.id for each in await store.approvals.find()] == ["apr_0"]
        assert (await store.approvals.get("apr_0")).id == "apr_0"


TEXTS = ("capability_id", "actor_id", "status", "body", "digest", "consumed_by")


@pytest.mark.parametrize("column", TEXTS)
async def test_what_is_no_text_hides_nothing(file_url, tmp_path, column):
    """Bytes that no text has are found where they are; other records are listed."""
    await kept(file_url, "approved")
    with closing(sqlite3.connect(tmp_path / "capgate.db", isolation_level=None)) as db:
        bad = "CAST(x'ff' AS TEXT)"
        db.execute(f"UPDATE capgate_approvals SET {column} = {bad} WHERE id = 'apr_1'")
    async with Store(file_url) as store:
        assert await store.approvals.altered() == ["apr_1"]
        assert "apr_0" in [each.id for each in await store.approvals.find()]


@pytest.mark.parametrize("value", ["CAST(x'ff' AS TEXT)", "replace(record, ', ', ',' || char(10))"])
async def test_a_record_that_is_no_line_is_found(file_url, tmp_path, value):
    """What cannot be exported as one line was not written by this store."""
    await kept(file_url, "pending")
    with closing(sqlite3.connect(tmp_path / "capgate.db", isolation_level=None)) as db:
        db.execute(f"UPDATE capgate_audit SET record = {value} WHERE seq = 2")
    async with Store(file_url) as store:
        report = await store.audit.export(tmp_path / "audit.jsonl")
        assert (report.ok, report.first_bad) == (False, 2)
