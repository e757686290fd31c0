"""Executions of whose end there is no word: which they are, and how an operator settles them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from capgate import Actor, ApprovalConfig, ApprovalRule, Engine, input_hash
from capgate.stores import Store
from capgate.testing import FakeClock

DANA, MIA, OPS = Actor("dana"), Actor("mia"), Actor("ops")
START = "2026-01-01T00:00:00Z"


class Desk:
    """An engine on a database, whose handler can be told to take the process with it."""

    def __init__(self, url: str) -> None:
        self.ran: list[str] = []
        self.store = Store(url)
        self.engine = Engine(
            "desk",
            store=self.store,
            approvals=ApprovalConfig(load_actor=lambda actor: actor),
            clock=FakeClock(START),
        )
        self.engine.capability("pay", side_effect="write", risk="high", approval=ApprovalRule())(
            self.pay
        )
        self.engine.capability("book", side_effect="write", risk="low")(self.pay)

    async def pay(self, order: str) -> str:
        """Pay an order."""
        self.ran.append(order)
        return order

    async def approved(self, **options):
        """Ask for a payment and approve it; returns the approval's id."""
        asked = await self.engine.attempt("pay", {"order": "o1"}, actor=DANA, **options)
        await self.engine.approvals.approve(asked.approval.id, by=MIA)
        return asked.approval.id


@pytest.fixture
async def desk(url):
    """An open desk, closed after the test."""
    made = Desk(url)
    async with made.store:
        yield made


async def test_what_has_ended_is_not_unfinished(desk):
    """Resumed to its end, refused, and replayed calls leave nothing behind."""
    await desk.engine.resume(await desk.approved())
    await desk.engine.attempt("pay", {"order": 1}, actor=DANA)
    for _ in range(2):
        await desk.engine.attempt("book", {"order": "o2"}, actor=DANA, idempotency_key="k1")
    assert await desk.store.unfinished() == []


async def test_a_spent_approval_without_an_end_is_unfinished(desk, spend):
    """It names the execution, the capability, the approval and the time."""
    approval_id = await desk.approved()
    await spend(desk.store, approval_id)
    (found,) = await desk.store.unfinished()
    assert (found.execution_id, found.capability_id) == ("exe_dead", "pay")
    assert (found.approval_id, found.idempotency_key) == (approval_id, None)
    assert found.since == datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_key_in_flight_is_unfinished(desk, enter):
    """It names the key as the caller wrote it."""
    await enter(desk.store, "exe_dead", '["book","user","dana","k1"]')
    (found,) = await desk.store.unfinished()
    assert (found.capability_id, found.approval_id, found.idempotency_key) == ("book", None, "k1")


async def test_a_released_approval_is_not_unfinished(desk, spend):
    """What was given back has not begun."""
    approval_id = await desk.approved()
    await spend(desk.store, approval_id)
    await desk.store.approvals.release(approval_id, "exe_dead")
    assert await desk.store.unfinished() == []


async def test_settling_is_audited_and_leaves_the_approval_spent(desk, ask, spend):
    """The chain says who settled what, and how; the approval is not usable again."""
    approval_id = await desk.approved()
    await spend(desk.store, approval_id)
    await desk.store.settle("exe_dead", "none", by=OPS, comment="The bank has no trace of it.")
    assert await desk.store.unfinished() == []
    assert (await desk.store.audit.verify()).ok
    told = json.loads(ask("SELECT record FROM capgate_audit ORDER BY seq DESC LIMIT 1")[0][0])
    assert (told["type"], told["actor"]["id"]) == ("capability.settled", "ops")
    assert told["data"] == {"effect": "none", "comment": "The bank has no trace of it."}
    outcome = await desk.engine.attempt_resume(approval_id)
    assert outcome.error.code == "APPROVAL_CONSUMED"
    assert desk.ran == []


@pytest.mark.parametrize(("outcome", "ran"), [("none", ["o1"]), ("done", [])])
async def test_settling_frees_or_ends_a_key(desk, outcome, ran, enter):
    """After `none` the call may be made again with its key; after `done` it is not repeated."""
    digest = input_hash({"order": "o1"})
    await enter(desk.store, "exe_dead", '["book","user","dana","k1"]', digest)
    await desk.store.settle("exe_dead", outcome, by=OPS)
    again = await desk.engine.attempt("book", {"order": "o1"}, actor=DANA, idempotency_key="k1")
    assert desk.ran == ran
    assert again.effect == "done"
    if outcome == "done":
        assert (again.error.code, again.error.execution_id) == ("INTERNAL_ERROR", "exe_dead")


@pytest.mark.parametrize("outcome", ["none", "done"])
async def test_settling_an_approved_call_settles_its_key_too(desk, outcome, spend):
    """A repeat with the key asks anew, or gets the failure; it never waits for a spent approval."""
    approval_id = await desk.approved(idempotency_key="k1")
    await spend(desk.store, approval_id)
    await desk.store.settle("exe_dead", outcome, by=OPS)
    again = await desk.engine.attempt("pay", {"order": "o1"}, actor=DANA, idempotency_key="k1")
    if outcome == "none":
        assert again.approval.id != approval_id
    else:
        assert again.effect == "done"
    assert desk.ran == []


async def test_what_is_not_unfinished_cannot_be_settled(desk, spend):
    """An unknown execution, and one that is settled already."""
    await spend(desk.store, await desk.approved())
    await desk.store.settle("exe_dead", "done", by=OPS)
    for execution_id in ("exe_dead", "exe_unknown", "\x00"):
        with pytest.raises(LookupError):
            await desk.store.settle(execution_id, "done", by=OPS)


@pytest.mark.parametrize(
    ("outcome", "by", "comment", "error"),
    [
        ("maybe", OPS, None, ValueError),
        (None, OPS, None, ValueError),
        ("done", "ops", None, TypeError),
        ("done", Actor.anonymous(), None, ValueError),
        ("done", OPS, 3, TypeError),
        ("done", OPS, "\ud800", ValueError),
    ],
)
async def test_a_wrong_settlement_is_refused_and_changes_nothing(
    desk, outcome, by, comment, error, spend
):
    """It says what is wrong, and the execution stays unfinished."""
    await spend(desk.store, await desk.approved())
    with pytest.raises(error):
        await desk.store.settle("exe_dead", outcome, by=by, comment=comment)
    assert len(await desk.store.unfinished()) == 1


async def test_a_page_of_unfinished_ones_has_a_size(desk, spend):
    """The oldest come first, and a size below 1 is refused."""
    for number in range(3):
        await spend(desk.store, await desk.approved(), f"exe_{number}")
    assert [each.execution_id for each in await desk.store.unfinished(2)] == ["exe_0", "exe_1"]
    with pytest.raises(ValueError, match="at least 1"):
        await desk.store.unfinished(0)
