"""The event that a handler starts, kept in one transaction with what the call spends."""

from __future__ import annotations

import json

import pytest

from capgate import Actor, ApprovalConfig, ApprovalRule, AuditConfig, Engine
from capgate.approvals import ApprovalDecision
from capgate.audit import MemoryAudit
from capgate.stores import SqlApprovals, SqlIdempotency, Store
from capgate.stores.chain import Chain

DANA, MIA = Actor("dana"), Actor("mia")


class Desk:
    """An engine on a database, with a second sink, whose handler says what the database shows."""

    def __init__(self, url, ask, **options):
        self.store, self.ask, self.seen = Store(url), ask, []
        self.sink = MemoryAudit()
        self.engine = Engine(
            "desk",
            store=self.store,
            approvals=ApprovalConfig(load_actor=lambda actor: actor),
            audit=AuditConfig([self.sink], **options),
        )
        mark = self.engine.capability
        mark("pay", side_effect="write", risk="high", approval=ApprovalRule())(self.pay)
        mark("book", side_effect="write", risk="low")(self.pay)

    def told(self, kind):
        """The executions with an event of this type in the database, in order."""
        found = self.ask("SELECT record FROM capgate_audit ORDER BY seq")
        records = [json.loads(record) for (record,) in found]
        return [each["execution_id"] for each in records if each["type"] == kind]

    def chain(self, execution_id):
        """The types of an execution's events in the database, in order."""
        found = self.ask("SELECT record FROM capgate_audit ORDER BY seq")
        records = [json.loads(record) for (record,) in found]
        return [each["type"] for each in records if each["execution_id"] == execution_id]

    async def pay(self, order: str) -> str:
        """Pay an order, having looked at what a crash would leave."""
        unfinished = await self.store.unfinished()
        self.seen.append(([each.execution_id for each in unfinished], self.told(STARTED)))
        return order

    async def approved(self, **options):
        """Ask for a payment and approve it; returns the approval's id."""
        asked = await self.engine.attempt("pay", {"order": "o1"}, actor=DANA, **options)
        await self.engine.approvals.approve(asked.approval.id, by=MIA)
        return asked.approval.id


STARTED = "capability.started"
WHOLE = ["capability.requested", STARTED, "capability.completed"]


@pytest.mark.parametrize("strict", [False, True])
async def test_an_approval_is_spent_together_with_the_start(url, ask, strict):
    """SI-5: the handler finds its start in the database; every sink is told of it once."""
    desk = Desk(url, ask, strict=strict)
    async with desk.engine:
        outcome = await desk.engine.attempt_resume(await desk.approved())
    execution = outcome.execution_id
    assert desk.seen == [([execution], [execution])]
    assert desk.chain(execution) == WHOLE
    assert [each.type for each in desk.sink.events if each.execution_id == execution] == WHOLE


@pytest.mark.parametrize("strict", [False, True])
async def test_a_key_is_marked_together_with_the_start(url, ask, strict):
    """The same for a call with a key; a repeat starts nothing."""
    desk = Desk(url, ask, strict=strict)
    async with desk.engine:
        for _ in range(2):
            order = {"order": "o1"}
            outcome = await desk.engine.attempt("book", order, actor=DANA, idempotency_key="k")
    assert outcome.replayed
    assert desk.told(STARTED) == [outcome.execution_id]
    assert desk.seen == [([outcome.execution_id], [outcome.execution_id])]
    assert desk.chain(outcome.execution_id) == WHOLE


async def test_a_resumed_call_with_a_key_starts_once(url, ask):
    """What it spends is the approval; its key waits for the end."""
    desk = Desk(url, ask)
    async with desk.engine:
        approval_id = await desk.approved(idempotency_key="k")
        outcome = await desk.engine.attempt_resume(approval_id)
        again = await desk.engine.attempt("pay", {"order": "o1"}, actor=DANA, idempotency_key="k")
    assert desk.chain(outcome.execution_id) == WHOLE
    assert (again.status, again.replayed) == ("completed", True)


async def test_an_engine_that_is_not_entered_keeps_starts_too(url, ask):
    """There the events are written in place."""
    desk = Desk(url, ask)
    outcome = await desk.engine.attempt_resume(await desk.approved())
    assert desk.chain(outcome.execution_id) == WHOLE
    await desk.store.aclose()


async def test_a_start_that_cannot_be_kept_enters_no_handler(url, ask, monkeypatch):
    """The key is free again, and the caller may try again."""
    desk = Desk(url, ask)

    def broken(self, db, records):
        raise OSError("the disk is gone")

    async with desk.engine:
        with monkeypatch.context() as patch:
            patch.setattr(Chain, "append", broken)
            order = {"order": "o1"}
            outcome = await desk.engine.attempt("book", order, actor=DANA, idempotency_key="k")
        assert (outcome.error.code, outcome.error.retryable) == ("INTERNAL_ERROR", True)
        assert (outcome.effect, desk.seen) == ("none", [])
        again = await desk.engine.attempt("book", order, actor=DANA, idempotency_key="k")
        assert again.status == "completed"


async def test_a_start_that_cannot_be_kept_spends_no_approval(url, ask, monkeypatch):
    """SI-5: both or neither."""
    desk = Desk(url, ask)

    def broken(self, db, records):
        raise OSError("the disk is gone")

    async with desk.engine:
        approval_id = await desk.approved()
        with monkeypatch.context() as patch:
            patch.setattr(Chain, "append", broken)
            outcome = await desk.engine.attempt_resume(approval_id)
        assert (outcome.error.code, desk.seen) == ("APPROVAL_UNAVAILABLE", [])
        assert await desk.store.unfinished() == []
        assert (await desk.engine.attempt_resume(approval_id)).status == "completed"


async def test_a_key_that_became_anothers_starts_nothing(url, ask, monkeypatch):
    """Who holds a key no more is in conflict with who does."""
    desk = Desk(url, ask)
    start = SqlIdempotency.start

    async def late(self, key, **what):
        ask("UPDATE capgate_idempotency SET execution_id = 'exe_other'")
        return await start(self, key, **what)

    monkeypatch.setattr(SqlIdempotency, "start", late)
    async with desk.engine:
        order = {"order": "o1"}
        outcome = await desk.engine.attempt("book", order, actor=DANA, idempotency_key="k")
    assert (outcome.error.code, desk.seen) == ("IDEMPOTENCY_CONFLICT", [])


async def test_a_strict_sink_that_fails_gives_the_approval_back(url, ask):
    """The start stands in the database, and so does the end; the approval is whole."""
    desk = Desk(url, ask, strict=True)

    async def down(event):
        if event.type == STARTED:
            raise OSError("down")

    desk.engine = Engine(
        "desk",
        store=desk.store,
        approvals=ApprovalConfig(load_actor=lambda actor: actor),
        audit=AuditConfig([down], strict=True),
    )
    desk.engine.capability("pay", side_effect="write", risk="high", approval=ApprovalRule())(
        desk.pay
    )
    async with desk.engine:
        approval_id = await desk.approved()
        outcome = await desk.engine.attempt_resume(approval_id)
        assert (outcome.error.code, desk.seen) == ("AUDIT_UNAVAILABLE", [])
        assert (await desk.engine.approvals.get(approval_id)).status == "approved"
        assert await desk.store.unfinished() == []
    ended = ["capability.requested", STARTED, "capability.failed"]
    assert desk.chain(outcome.execution_id) == ended


async def agree(record):
    """Approve within the call."""
    return ApprovalDecision(approved=True, by=MIA)


async def test_an_approval_within_the_call_marks_its_key_too(url, ask):
    """What a crash leaves of such a call has an unknown effect, whatever of it is left."""
    store, seen = Store(url), []
    approvals = ApprovalConfig(load_actor=lambda actor: actor, handler=agree)
    engine = Engine("desk", store=store, approvals=approvals)

    @engine.capability("pay", side_effect="write", risk="high", approval=ApprovalRule())
    async def pay(order: str) -> str:
        """Pay an order, and look at what a crash after its end would leave."""
        ask("DELETE FROM capgate_executions")
        seen.append([each.idempotency_key for each in await store.unfinished()])
        seen.append(await store.unfinished(entered=False))
        return order

    async with engine:
        outcome = await engine.attempt("pay", {"order": "o1"}, actor=DANA, idempotency_key="k")
    assert outcome.status == "completed"
    assert seen == [["k"], []]


async def test_the_end_is_audited_before_the_key_answers(url, ask, monkeypatch):
    """A crash in between leaves an execution that is listed, not one that never ended."""
    desk, complete, chains = Desk(url, ask), SqlIdempotency.complete, []

    async def looking(self, key, outcome):
        chains.append(desk.chain(outcome.execution_id))
        return await complete(self, key, outcome)

    monkeypatch.setattr(SqlIdempotency, "complete", looking)
    async with desk.engine:
        await desk.engine.attempt("book", {"order": "o1"}, actor=DANA, idempotency_key="k")
    assert chains == [WHOLE]


@pytest.mark.parametrize(("outcome", "status"), [("done", "failed"), ("none", "approval-required")])
async def test_a_resumed_call_whose_key_never_heard_of_its_end(
    url, ask, monkeypatch, outcome, status
):
    """It is listed with its key, and can be settled."""
    desk = Desk(url, ask)

    async def dying(self, key, outcome):
        raise OSError("gone")

    order = {"order": "o1"}
    async with desk.engine:
        approval_id = await desk.approved(idempotency_key="k")
        with monkeypatch.context() as patch:
            patch.setattr(SqlIdempotency, "complete", dying)
            ended = await desk.engine.attempt_resume(approval_id)
        (found,) = await desk.store.unfinished()
        assert (found.execution_id, found.idempotency_key) == (ended.execution_id, "k")
        await desk.store.settle(found.execution_id, outcome, by=MIA)
        assert await desk.store.unfinished() == []
        again = await desk.engine.attempt("pay", order, actor=DANA, idempotency_key="k")
    assert again.status == status


async def test_the_stores_own_sink_is_told_once(url, ask):
    """Also where somebody names it, and where it is the only one of a strict audit."""
    for config in (AuditConfig(strict=True), None):
        store = Store(url)
        audit = config or AuditConfig([store.audit], strict=True)
        engine = Engine("desk", store=store, audit=audit, approvals=ApprovalConfig(load_actor=str))
        engine.capability("pay", side_effect="write", risk="low")(Desk(url, ask).pay)
        async with engine:
            outcome = await engine.attempt("pay", {"order": "o1"}, actor=DANA)
        found = ask("SELECT record FROM capgate_audit ORDER BY seq")
        records = [json.loads(record) for (record,) in found]
        own = [each for each in records if each["execution_id"] == outcome.execution_id]
        assert [each["type"] for each in own] == WHOLE


async def test_stores_on_their_own_keep_no_starts(url):
    """Without the audit on the same database there is nothing to keep a start in."""
    approvals, keys = SqlApprovals(url), SqlIdempotency(url)
    assert (approvals.keeps_starts, keys.keeps_starts) == (False, False)
    both = Store(url)
    assert (both.approvals.keeps_starts, both.idempotency.keeps_starts) == (True, True)


async def test_a_key_that_was_only_claimed_has_no_unknown_effect(store, enter):
    """It is listed apart: nothing has happened, and the key can be freed."""
    now = (await _entered(store, enter)).since
    await store.idempotency.begin('["book","user","dana","k2"]', "hash", "exe_waits", now, 60)
    assert [each.execution_id for each in await store.unfinished()] == ["exe_dead"]
    (waiting,) = await store.unfinished(entered=False)
    assert (waiting.execution_id, waiting.idempotency_key) == ("exe_waits", "k2")
    await store.settle("exe_waits", "none", by=Actor("ops"))
    assert await store.unfinished(entered=False) == []


async def _entered(store, enter):
    await enter(store, "exe_dead", '["book","user","dana","k1"]')
    return (await store.unfinished())[0]
