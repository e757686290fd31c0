"""What a store on SQLite keeps across engines, and what becomes of it when it is damaged."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
import anyio.to_thread
import pytest

from capgate import Actor, ApprovalConfig, Engine, policy, require_approval
from capgate.audit import AuditEvent
from capgate.engine import UnsafeWarning
from capgate.errors import CapabilityError
from capgate.stores import Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DANA, MIA = Actor("dana"), Actor("mia")


@policy("needs-approval")
def needs_approval(request):
    """Ask about everything."""
    return require_approval("Somebody has to look.")


def engine_on(url, ran, **options):
    """An engine with one governed write, on the database at `url`."""
    store = Store(url)
    engine = Engine(
        "test",
        store=store,
        approvals=ApprovalConfig(load_actor=lambda actor: actor),
        **options,
    )

    @engine.capability("orders.refund", side_effect="write", risk="high", idempotent=True)
    async def refund(order_id: str) -> str:
        """Refund an order."""
        ran.append(order_id)
        return f"refunded {order_id}"

    return engine, store


async def test_an_approval_survives_its_engine(url):
    """SI-5: asked in one engine, approved in another, resumed in a third, and run once."""
    ran = []
    first, _ = engine_on(url, ran, policies=[needs_approval])
    async with first:
        asked = await first.attempt("orders.refund", {"order_id": "o1"}, actor=DANA)
    second, _ = engine_on(url, ran, policies=[needs_approval])
    async with second:
        await second.approvals.approve(asked.approval.id, by=MIA)
    third, _ = engine_on(url, ran, policies=[needs_approval])
    async with third:
        assert await third.resume(asked.approval.id) == "refunded o1"
        with pytest.raises(CapabilityError, match="APPROVAL_CONSUMED"):
            await third.resume(asked.approval.id)
    assert ran == ["o1"]


async def test_an_idempotency_key_survives_its_engine(url):
    """A repeat in another engine gets the stored outcome, and the handler does not run."""
    ran = []
    call = {"actor": DANA, "idempotency_key": "k1"}
    for replayed in (False, True):
        engine, _ = engine_on(url, ran)
        async with engine:
            outcome = await engine.attempt("orders.refund", {"order_id": "o1"}, **call)
        assert (outcome.output, outcome.replayed) == ("refunded o1", replayed)
    assert ran == ["o1"]


async def test_the_audit_is_one_chain_across_engines(url):
    """Each engine goes on where the one before ended, and the whole chain verifies."""
    for _ in range(2):
        engine, _ = engine_on(url, [])
        async with engine:
            await engine.invoke("orders.refund", {"order_id": "o1"}, actor=DANA)
    async with Store(url) as store:
        report = await store.audit.verify()
    assert report.ok
    assert report.checked == 6


async def test_a_closed_engine_closes_its_store(url):
    """After the engine's end the store takes no more work."""
    engine, store = engine_on(url, [])
    async with engine:
        await engine.invoke("orders.refund", {"order_id": "o1"}, actor=DANA)
    with pytest.raises(RuntimeError, match="closed"):
        await store.approvals.get("apr_1")


async def test_a_store_is_opened_at_first_use(url):
    """An engine that nobody entered works too."""
    engine, store = engine_on(url, [])
    assert await engine.invoke("orders.refund", {"order_id": "o1"}, actor=DANA) == "refunded o1"
    await store.aclose()


async def test_a_durable_store_without_load_actor_warns(url):
    """Permissions as stored may be old: the engine says so when it is built."""
    with pytest.warns(UnsafeWarning, match="load_actor"):
        Engine("test", store=Store(url))


COLUMNS = {
    "id": "'apr_other'",
    "capability_id": "'orders.other'",
    "actor_id": "'eve'",
    "expires_at": "expires_at + 1",
    "quorum": "quorum + 1",
    "body": "replace(body, 'o1', 'o2')",
}


@pytest.mark.parametrize("column", COLUMNS)
async def test_an_altered_row_is_never_executed(url, ask, column):
    """SI-5: whatever column of a stored approval is changed, nothing runs on the strength of it."""
    ran = []
    engine, _ = engine_on(url, ran, policies=[needs_approval])
    async with engine:
        asked = await engine.attempt("orders.refund", {"order_id": "o1"}, actor=DANA)
        await engine.approvals.approve(asked.approval.id, by=MIA)
        if column == "id":
            ask("DELETE FROM capgate_decisions")
        ask(f"UPDATE capgate_approvals SET {column} = {COLUMNS[column]}")
        outcome = await engine.attempt_resume(asked.approval.id)
    assert outcome.error.code in {"APPROVAL_INPUT_MISMATCH", "APPROVAL_NOT_FOUND"}
    assert ran == []


async def test_an_altered_audit_record_is_found(store, ask):
    """A changed record breaks the chain where it stands."""
    engine = Engine("test", audit=store.audit)

    @engine.capability("orders.list", side_effect="read", risk="low")
    async def listed() -> str:
        """List the orders."""
        return "none"

    await engine.invoke(listed, actor=DANA)
    ask("UPDATE capgate_audit SET record = replace(record, 'dana', 'eve') WHERE seq = 2")
    report = await store.audit.verify()
    assert (report.ok, report.checked, report.first_bad) == (False, 1, 2)


async def test_many_event_loops_write_one_chain(store):
    """Events from several threads' event loops are all there, in one chain that verifies."""
    events = [AuditEvent("capability.requested", NOW, execution_id=f"exe_{n}") for n in range(50)]

    async def write_all():
        async with anyio.create_task_group() as group:
            for event in events:
                group.start_soon(store.audit, event)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(anyio.to_thread.run_sync, anyio.run, write_all)
        group.start_soon(write_all)
    report = await store.audit.verify()
    assert (report.ok, report.checked) == (True, 250)


async def test_a_sink_that_cannot_write_says_so_to_every_caller(store, ask):
    """Events that were to be written together fail together, and the next ones are written."""
    event = AuditEvent("capability.requested", NOW, execution_id="exe_1")
    await store.audit(event)
    ask("ALTER TABLE capgate_audit RENAME TO hidden")
    failed = []

    async def write():
        with pytest.raises(Exception, match=r"no such table|does not exist"):
            await store.audit(event)
        failed.append(1)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(write)
    ask("ALTER TABLE hidden RENAME TO capgate_audit")
    await store.audit(event)
    assert len(failed) == 5
    assert (await store.audit.verify()).checked == 2
