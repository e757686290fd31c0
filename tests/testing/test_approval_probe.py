"""Answering requests in a test."""

from __future__ import annotations

import pytest

from capgate import Actor, ApprovalRule, CapabilityError, Library
from capgate.approvals import ApprovalStatus
from capgate.testing import TestEngine, fake_actor


def saying(text):
    """Return a handler that only says this."""

    def handler() -> str:
        return text

    return handler


@pytest.fixture
def engine(shop):
    return TestEngine(shop.engine)


async def asked(engine, **options):
    outcome = await engine.attempt("refund", {"order": "A1"}, **options)
    return outcome.approval.id


async def test_what_waits_is_pending(engine):
    """A request waits until it is answered, and is found with its status."""
    approval_id = await asked(engine)
    (record,) = await engine.approvals.pending()
    assert (record.id, record.capability_id) == (approval_id, "refund")
    await engine.approvals.approve(approval_id)
    assert await engine.approvals.pending() == []
    assert (await engine.approvals.get(approval_id)).status is ApprovalStatus.APPROVED


async def test_every_page_is_pending(engine):
    """More requests than one page holds are all found, oldest first."""
    asked_for = [await asked(engine) for _ in range(101)]
    assert [record.id for record in await engine.approvals.pending()] == asked_for


async def test_an_approved_call_resumes(engine, shop):
    """Approved by a default approver, who has what the rule requires, the call executes."""
    approval_id = await asked(engine)
    record = await engine.approvals.approve(approval_id, comment="fine")
    assert await engine.resume(approval_id) == {"A1": 3}
    assert shop.ran == ["refund"]
    (decision,) = record.decisions
    assert (decision.by.id, decision.by.kind) == ("test-approver", "user")
    assert decision.by.permissions == {"refunds:approve"}
    assert decision.comment == "fine"


async def test_a_rejected_call_does_not_resume(engine, shop):
    """Rejected, the call fails with APPROVAL_REJECTED and nothing executes."""
    approval_id = await asked(engine)
    assert (await engine.approvals.reject(approval_id)).status is ApprovalStatus.REJECTED
    outcome = await engine.attempt_resume(approval_id)
    assert outcome.error.code == "APPROVAL_REJECTED"
    assert shop.ran == []


async def test_the_rules_of_the_engine_hold(engine):
    """An approver given by the test is judged as any other (SI-4)."""
    approval_id = await asked(engine)
    for by, code in [
        (fake_actor("mia"), "FORBIDDEN"),
        (engine.actor, "APPROVAL_SELF_APPROVAL"),
        (Actor.anonymous(), "FORBIDDEN"),
        ("mia", "UNAUTHENTICATED"),
    ]:
        with pytest.raises(CapabilityError) as refused:
            await engine.approvals.approve(approval_id, by)
        assert refused.value.code == code
    await engine.approvals.approve(approval_id, by=fake_actor("m", permissions=["refunds:approve"]))


async def test_default_approvers_are_distinct():
    """Each default approver is another user than the requester and those before."""
    library = Library("bank", "1")
    library.capability("pay", description="Pay.", approval=ApprovalRule(quorum=2))(saying("paid"))
    engine = TestEngine(libraries=[library], actor=fake_actor("test-approver"))
    approval_id = (await engine.attempt("pay")).approval.id
    assert (await engine.approvals.approve(approval_id)).status is ApprovalStatus.PENDING
    record = await engine.approvals.approve(approval_id)
    assert record.status is ApprovalStatus.APPROVED
    names = [decision.by.id for decision in record.decisions]
    assert names == ["test-approver-2", "test-approver-3"]


async def test_the_requester_withdraws(engine):
    """Without a name it is the requester who withdraws; a stranger cannot."""
    approval_id = await asked(engine, actor=fake_actor("zoe"))
    with pytest.raises(CapabilityError, match="APPROVAL_NOT_FOUND"):
        await engine.approvals.withdraw(approval_id, by=fake_actor("mia"))
    taken = await engine.approvals.withdraw(approval_id)
    assert taken.status is ApprovalStatus.CANCELLED


async def test_time_runs_out_when_the_clock_says_so(engine):
    """A request expires by the test's clock alone."""
    approval_id = await asked(engine)
    engine.clock.advance("14m")
    await engine.approvals.approve(approval_id)
    engine.clock.advance("1m")
    outcome = await engine.attempt_resume(approval_id)
    assert outcome.error.code == "APPROVAL_EXPIRED"


@pytest.mark.parametrize("act", ["get", "approve", "reject", "withdraw"])
async def test_unknown_ids_are_not_found(engine, act):
    """An id that nobody asked for is APPROVAL_NOT_FOUND, and one that is no str a TypeError."""
    with pytest.raises(CapabilityError, match="APPROVAL_NOT_FOUND"):
        await getattr(engine.approvals, act)("apr_404")
    with pytest.raises(TypeError):
        await getattr(engine.approvals, act)(7)
