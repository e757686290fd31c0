"""What several callers, a cancelled one, or a strange one could break, and does not."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime

import anyio
import pytest

from capgate import Actor
from capgate.audit import AuditEvent
from capgate.errors import CapabilityError
from capgate.idempotency import Claimed, StoredOutcome
from capgate.stores import Store
from capgate.stores.worker import Worker
from capgate.testing.sample_approvals import open_record, sample, yes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPS = Actor("ops")
LONG = "\u4e2d" * 4_000


async def claim(store, execution_id, key="k"):
    """Claim a key for an execution."""
    return await store.idempotency.begin(key, "hash", execution_id, NOW, 3600)


async def test_what_a_cancelled_caller_does_next_comes_after_its_job(store):
    """SI-5: a key that is given back after a cancellation is free, wherever the claim stood."""
    for number in range(60):
        with anyio.move_on_after(number * 0.00005):
            await claim(store, "exe_1")
        with anyio.CancelScope(shield=True):
            await store.idempotency.release("k", "exe_1")
        assert await claim(store, "exe_2") == Claimed()
        await store.idempotency.release("k", "exe_2")


async def test_of_two_that_settle_at_once_one_comes_too_late(url):
    """One settlement counts and is audited; the other is a LookupError."""
    async with Store(url) as one, Store(url) as other:
        for number in range(10):
            execution_id = f"exe_{number}"
            await claim(one, execution_id, f"k{number}")
            told = []

            async def settle(store, outcome, execution_id=execution_id, told=told):
                try:
                    await store.settle(execution_id, outcome, by=OPS)
                except LookupError:
                    told.append("late")
                else:
                    told.append("settled")

            async with anyio.create_task_group() as group:
                group.start_soon(settle, one, "none")
                group.start_soon(settle, other, "done")
            assert sorted(told) == ["late", "settled"]
        assert (await one.audit.verify()).checked == 10


async def test_settling_never_takes_back_an_outcome(url):
    """A call that ends while somebody settles it keeps its outcome, or is settled: never both."""
    async with Store(url) as one, Store(url) as other:
        for number in range(20):
            key, outcome = f"k{number}", StoredOutcome(f"exe_{number}", "completed", output=1)
            await claim(one, outcome.execution_id, key)
            kept = []

            async def complete(key=key, outcome=outcome, kept=kept):
                kept.append(await other.idempotency.complete(key, outcome))

            async def settle(outcome=outcome):
                try:
                    await one.settle(outcome.execution_id, "none", by=OPS)
                except LookupError:
                    return

            async with anyio.create_task_group() as group:
                group.start_soon(complete)
                group.start_soon(settle)
            assert (await claim(one, "exe_new", key) == Claimed()) is not kept[0]


async def test_spending_and_the_last_approval_are_told_apart(url):
    """SI-5: whoever spends while the last yes comes in gets it or is told that it is pending."""
    told = []
    async with Store(url) as one, Store(url) as other:
        for number in range(30):
            id_ = f"apr_{number}"
            await one.approvals.create(sample(id_))

            async def spend(id_=id_):
                try:
                    spent = await other.approvals.consume(id_, "exe_1", NOW)
                except CapabilityError as refused:
                    told.append(refused.code.value)
                else:
                    told.append(spent.status.value)

            async with anyio.create_task_group() as group:
                group.start_soon(one.approvals.decide, id_, yes("mia"), NOW)
                group.start_soon(spend)
    assert len(told) == 30
    assert set(told) <= {"APPROVAL_PENDING", "consumed"}


async def test_settling_and_the_audit_do_not_wait_for_each_other(url, spend):
    """While one execution is settled its end is told: neither stops the other."""
    settled = []
    async with Store(url) as one, Store(url) as other:
        for number in range(20):
            id_, execution_id = f"apr_{number}", f"exe_{number}"
            await open_record(one.approvals, id_, yes("mia"))
            await spend(one, id_, execution_id)
            end = AuditEvent("capability.completed", NOW, execution_id=execution_id)

            async def settle(execution_id=execution_id):
                with suppress(LookupError):
                    await one.settle(execution_id, "done", by=OPS)
                    settled.append(execution_id)

            async with anyio.create_task_group() as group:
                group.start_soon(settle)
                group.start_soon(other.audit, end)
        report = await one.audit.verify()
        assert report.ok
        assert report.checked == 40 + len(settled)


async def test_another_default_isolation_loses_no_event(schema_url):
    """Two writers of one chain on a database whose transactions see the past by default."""
    url = f"{schema_url}%20-cdefault_transaction_isolation%3Drepeatable%5C%20read"
    async with Store(url) as one, Store(url) as other:
        async with anyio.create_task_group() as group:
            for number in range(40):
                event = AuditEvent("capability.requested", NOW, execution_id=f"exe_{number}")
                group.start_soon((one if number % 2 else other).audit, event)
        report = await one.audit.verify()
    assert (report.ok, report.checked) == (True, 40)


@pytest.mark.parametrize("key", ["my own", "[]", '["a"]', "k\x00\ud800", "{", "3", LONG])
async def test_a_key_of_anybodys_making_hides_nothing(store, key, enter):
    """Unfinished executions are listed and settled, whatever their keys look like."""
    await enter(store, "exe_own", key)
    await enter(store, "exe_lost", '["pay","user","dana","k1"]')
    listed = {each.execution_id: each for each in await store.unfinished()}
    assert set(listed) == {"exe_own", "exe_lost"}
    assert (listed["exe_lost"].capability_id, listed["exe_lost"].idempotency_key) == ("pay", "k1")
    await store.settle("exe_own", "none", by=OPS)
    assert await claim(store, "exe_new", key) == Claimed()


@pytest.mark.parametrize("data", [{}, {"suspended": True}, "text", None])
@pytest.mark.parametrize("kind", ["capability.completed", "capability.approval_requested"])
async def test_an_event_of_anybodys_making_is_written(store, kind, data):
    """One without an execution, or with other data than the engine's, fails nobody's group."""
    await store.audit(AuditEvent(kind, NOW, data=data))
    assert (await store.audit.verify()).checked == 1


async def test_long_names_are_kept_and_told_apart(store):
    """Names that no index holds work like others, up to their last character."""
    for end in "ab":
        record = sample(f"apr_{end}", actor=Actor(LONG + end))
        await store.approvals.create(record)
        assert await store.approvals.get(record.id) == record
        answered = await store.approvals.decide(record.id, yes(Actor(LONG)), NOW)
        assert answered.decisions[0].by.id == LONG
        assert await claim(store, f"exe_{end}", LONG + end) == Claimed()
    assert [each.id for each in await store.approvals.find(actor_id=LONG + "a")] == ["apr_a"]


async def test_one_execution_with_an_approval_and_a_key_is_listed_once(store, spend):
    """It names both, and one settlement ends it."""
    await claim(store, "exe_1", '["pay","user","dana","k1"]')
    await open_record(store.approvals, "apr_1", yes("mia"))
    await spend(store, "apr_1", "exe_1")
    (found,) = await store.unfinished()
    assert (found.approval_id, found.idempotency_key) == ("apr_1", "k1")
    await store.settle("exe_1", "none", by=OPS)
    assert await store.unfinished() == []


async def test_a_key_that_never_ended_stays_listed_after_its_time(store, enter):
    """Others that are claimed later do not wipe out the trace of a crash."""
    await enter(store, "exe_dead", "k")
    later = datetime(2027, 1, 1, tzinfo=UTC)
    await store.idempotency.begin("other", "hash", "exe_2", later, 3600)
    assert [each.execution_id for each in await store.unfinished()] == ["exe_dead"]
    assert [each.execution_id for each in await store.unfinished(entered=False)] == ["exe_2"]
    assert await store.idempotency.begin("k", "hash", "exe_3", later, 3600) == Claimed()


async def test_a_thread_that_cannot_be_started_is_tried_again(monkeypatch):
    """The first job fails, the next one has its thread, and the worker can be closed."""
    worker = Worker("test", lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="no more threads"):
            await worker.run(lambda: 1)
    assert await worker.run(lambda: 2) == 2
    await worker.aclose()


def refuse(thread):
    """Start nothing."""
    raise RuntimeError("no more threads")


@pytest.mark.parametrize("limit", ["1", 1.5, None])
async def test_a_limit_is_a_whole_number(store, limit):
    """On every database alike."""
    with pytest.raises(TypeError):
        await store.approvals.find(limit=limit)
    with pytest.raises(TypeError):
        await store.unfinished(limit)


@pytest.mark.parametrize("execution_id", [None, 1, b"exe_1"])
async def test_an_execution_id_is_text(store, execution_id):
    """It is refused at once."""
    with pytest.raises(TypeError, match="execution_id"):
        await store.settle(execution_id, "done", by=OPS)
