"""Deciding: who may answer, what it makes of the request, and what nobody may learn."""

from __future__ import annotations

import pickle
from dataclasses import replace
from datetime import timedelta

import pytest

from capgate.approvals import Approvals, ApprovalStatus, MemoryApprovals, RuleBook, bind, intact
from capgate.call import Actor
from capgate.errors import CapabilityError, ErrorCode, FailureStage, public_error
from capgate.testing.sample_approvals import EXPIRY, NOW, TICK, sample

KEY = b"a key of 16 bytes or more"
MIA, MAX = Actor("mia"), Actor("max")
DANA = sample("apr_1").actor


class Desk:
    """A desk over one memory store, with its clock and its events in reach."""

    def __init__(self, *records, keys=()) -> None:
        self.now, self.events, self.store = NOW, [], MemoryApprovals()
        clock = type("Clock", (), {"now": lambda _: self.now})()
        self.approvals = Approvals(
            self.store, clock=clock, rulebook=RuleBook(), keys=keys, emit=self.emit
        )
        self.records = records

    async def __aenter__(self):
        for record in self.records:
            await self.store.create(record)
        return self

    async def __aexit__(self, *raised):
        return None

    def emit(self, type_, record, actor, data) -> None:
        self.events.append((type_, record, actor, dict(data)))

    async def refusal(self, verb, approval_id, **named) -> CapabilityError:
        with pytest.raises(CapabilityError) as caught:
            await getattr(self.approvals, verb)(approval_id, **named)
        return caught.value


def request(**changes):
    return sample("apr_1", **{"approver_rules": (), **changes})


async def test_approving_records_who_when_and_why():
    """One act: nothing is executed, the request is approved."""
    async with Desk(request()) as desk:
        record = await desk.approvals.approve("apr_1", by=MIA, comment="ok")
    (decision,) = record.decisions
    assert record.status is ApprovalStatus.APPROVED
    assert (decision.by, decision.comment, decision.decided_at) == (MIA, "ok", NOW)


async def test_the_audit_hears_the_approver():
    """The event's actor is who decided, not who asked; it carries no input."""
    async with Desk(request()) as desk:
        await desk.approvals.reject("apr_1", by=MIA, comment="no")
    ((type_, record, actor, data),) = desk.events
    assert (type_, actor, record.status) == ("capability.rejected", MIA, "rejected")
    assert data == {
        "approval_id": "apr_1",
        "approver": {"id": "mia", "kind": "user"},
        "comment": "no",
        "status": "rejected",
    }


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_a_requester_cannot_decide_and_the_request_stays_open(verb):
    """SI-4: reference A let the requester kill the request for everybody else."""
    async with Desk(request(actor=DANA)) as desk:
        refused = await desk.refusal(verb, "apr_1", by=Actor("dana", "service"))
        record = await desk.approvals.approve("apr_1", by=MIA)
    assert refused.code is ErrorCode.APPROVAL_SELF_APPROVAL
    assert record.status is ApprovalStatus.APPROVED


async def test_the_same_id_of_another_kind_is_somebody_else():
    """SI-4: identity is kind and id."""
    async with Desk(request(actor=DANA)) as desk:
        record = await desk.approvals.approve("apr_1", by=Actor("dana", "user"))
    assert record.status is ApprovalStatus.APPROVED


async def test_self_approval_where_the_request_allows_it():
    """`allow_self` is the one exception, and the approver must still be entitled."""
    async with Desk(request(actor=MIA, allow_self=True)) as desk:
        record = await desk.approvals.approve("apr_1", by=MIA)
    assert record.status is ApprovalStatus.APPROVED


@pytest.mark.parametrize("verb", ["approve", "reject", "withdraw"])
@pytest.mark.parametrize("by", [None, "mia", object(), object.__new__(Actor)])
async def test_a_malformed_actor_is_unauthenticated(verb, by):
    """SI-3: only an actor can act; a half-built one is none."""
    async with Desk(request()) as desk:
        refused = await desk.refusal(verb, "apr_1", by=by)
        assert (await desk.approvals.get("apr_1")).status is ApprovalStatus.PENDING
    assert refused.code is ErrorCode.UNAUTHENTICATED
    assert desk.events[0][3]["reason"] == "unauthenticated"


async def test_the_approver_is_captured_as_they_were():
    """What the caller's actor holds later is not what was recorded."""
    roles = ["manager"]
    async with Desk(request()) as desk:
        approver = Actor("mia", attributes={"roles": roles})
        await desk.approvals.approve("apr_1", by=approver)
        approver.attributes["roles"].append("admin")
        record = await desk.approvals.get("apr_1")
    assert record.decisions[0].by.attributes["roles"] == ["manager"]


@pytest.mark.parametrize("verb", ["get", "approve", "reject", "withdraw"])
async def test_an_unknown_id_is_not_found(verb):
    """There is nothing to say about an id that nobody issued; the audit has who tried."""
    async with Desk(request()) as desk:
        named = {} if verb == "get" else {"by": MIA}
        refused = await desk.refusal(verb, "apr_2", **named)
    assert refused.code is ErrorCode.APPROVAL_NOT_FOUND
    told = [(e[0], e[1], e[2], e[3]["reason"]) for e in desk.events]
    assert told == ([] if verb == "get" else [("capability.denied", None, MIA, "approval-unknown")])


@pytest.mark.parametrize("verb", ["approve", "reject", "withdraw"])
async def test_deciding_stops_at_the_tick_of_expiry(verb):
    """Expiry is `now >= expires_at`: one tick before is in time."""
    async with Desk(request(actor=DANA), sample("apr_2", approver_rules=())) as desk:
        by = DANA if verb == "withdraw" else MIA
        desk.now = EXPIRY
        assert (await desk.refusal(verb, "apr_1", by=by)).code is ErrorCode.APPROVAL_EXPIRED
        assert (await desk.approvals.get("apr_1")).status is ApprovalStatus.EXPIRED
        desk.now = EXPIRY - TICK
        await getattr(desk.approvals, verb)("apr_2", by=by)


async def test_what_is_decided_is_not_decided_again():
    """The first answer stands, and no second event is told."""
    async with Desk(request()) as desk:
        await desk.approvals.reject("apr_1", by=MIA)
        refused = await desk.refusal("approve", "apr_1", by=MAX)
    assert refused.code is ErrorCode.APPROVAL_NOT_PENDING
    assert [event[0] for event in desk.events] == ["capability.rejected"]


async def test_a_quorum_counts_distinct_approvers():
    """Twice the same approver is told so and counts once."""
    async with Desk(request(quorum=2)) as desk:
        first = await desk.approvals.approve("apr_1", by=MIA)
        refused = await desk.refusal("approve", "apr_1", by=MIA)
        second = await desk.approvals.approve("apr_1", by=MAX)
    assert (first.status, second.status) == ("pending", "approved")
    assert refused.code is ErrorCode.APPROVAL_NOT_PENDING
    assert refused.public_message == "This approver has already approved the request."
    assert [event[3].get("status") for event in desk.events] == ["pending", "approved"]


async def test_one_rejection_ends_a_quorum():
    """It takes n to say yes and one to say no."""
    async with Desk(request(quorum=3)) as desk:
        await desk.approvals.approve("apr_1", by=MIA)
        record = await desk.approvals.reject("apr_1", by=MAX)
    assert record.status is ApprovalStatus.REJECTED


async def test_a_requester_withdraws_and_nobody_can_decide_then():
    """Withdrawn is cancelled."""
    async with Desk(request(actor=DANA)) as desk:
        record = await desk.approvals.withdraw("apr_1", by=DANA)
        refused = await desk.refusal("approve", "apr_1", by=MIA)
    assert record.status is ApprovalStatus.CANCELLED
    assert refused.code is ErrorCode.APPROVAL_NOT_PENDING


@pytest.mark.parametrize("stranger", [MIA, Actor("dana", "user"), Actor.anonymous()])
async def test_a_stranger_withdrawing_learns_nothing(stranger):
    """SI-8: byte-identical to an unknown id; the audit has the truth."""
    async with Desk(request(actor=DANA)) as desk:
        strange = await desk.refusal("withdraw", "apr_1", by=stranger)
        unknown = await desk.refusal("withdraw", "apr_2", by=stranger)
    assert public_error(strange) == public_error(unknown)
    assert pickle.dumps(strange) == pickle.dumps(unknown)
    assert [event[3]["reason"] for event in desk.events] == ["resume-mismatch", "approval-unknown"]


async def test_nobody_owns_an_anonymous_request():
    """Two anonymous callers are equal, but they are not known to be the same."""
    anonymous = Actor.anonymous()
    async with Desk(request(actor=anonymous)) as desk:
        refused = await desk.refusal("withdraw", "apr_1", by=anonymous)
    assert refused.code is ErrorCode.APPROVAL_NOT_FOUND


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["plain", "keyed"])
async def test_a_tampered_request_cannot_be_decided(keys):
    """SI-5: what the approver would see is not what was asked for."""
    record = replace(request(), binding=bind(request(), keys))
    async with Desk(replace(record, shown_input={"amount": "1"}), keys=keys) as desk:
        refused = await desk.refusal("approve", "apr_1", by=MIA)
    assert refused.code is ErrorCode.APPROVAL_INPUT_MISMATCH
    assert public_error(refused)["code"] == "INTERNAL_ERROR"
    assert desk.events[0][3] == {
        "approval_id": "apr_1",
        "reason": "resume-mismatch",
        "code": "APPROVAL_INPUT_MISMATCH",
        "public_code": "INTERNAL_ERROR",
    }


async def test_decisions_are_sealed_when_there_are_keys():
    """The record that comes out of deciding is intact under the same keys."""
    record = replace(request(), binding=bind(request(), [KEY]))
    async with Desk(record, keys=[KEY]) as desk:
        decided = await desk.approvals.approve("apr_1", by=MIA)
    assert intact(decided, [KEY])
    assert decided.decisions[0].seal is not None


@pytest.mark.parametrize("comment", [b"x", 1, ["x"], "\ud800"])
async def test_a_comment_is_text(comment):
    """A programming error is raised as one, before anything is looked at."""
    async with Desk(request()) as desk:
        with pytest.raises((TypeError, ValueError)):
            await desk.approvals.approve("apr_1", by=MIA, comment=comment)
        assert (await desk.approvals.get("apr_1")).decisions == ()


@pytest.mark.parametrize("verb", ["get", "approve", "reject", "withdraw"])
async def test_an_id_is_text(verb):
    """An id that is no str is a programming error."""
    async with Desk() as desk:
        with pytest.raises(TypeError):
            await getattr(desk.approvals, verb)(None, **({} if verb == "get" else {"by": MIA}))


async def test_finding_shows_the_status_of_now():
    """A lapsed request is listed as expired, not as pending."""
    late = sample("apr_2", expires_at=EXPIRY + timedelta(hours=1))
    async with Desk(request(), late) as desk:
        desk.now = EXPIRY
        pending = await desk.approvals.find("pending")
        expired = await desk.approvals.find(status=ApprovalStatus.EXPIRED)
    assert [record.id for record in pending] == ["apr_2"]
    assert [record.id for record in expired] == ["apr_1"]


async def test_finding_pages_and_filters():
    """Filters and keyset paging reach the store."""
    async with Desk(*(sample(f"apr_{n}", actor=Actor(f"u{n % 2}")) for n in range(6))) as desk:
        page = await desk.approvals.find("pending", "orders.refund", actor_id="u0", limit=1)
        rest = await desk.approvals.find(actor_id="u0", after=page[0].id)
    assert [record.id for record in (*page, *rest)] == ["apr_0", "apr_2", "apr_4"]


@pytest.mark.parametrize("named", [{"limit": 0}, {"status": "open"}])
async def test_a_senseless_search_is_refused(named):
    """A misspelt status finds nothing by mistake: it is an error."""
    async with Desk() as desk:
        with pytest.raises(ValueError, match=r"limit|open"):
            await desk.approvals.find(**named)


@pytest.mark.parametrize("time", [None, NOW.replace(tzinfo=None), 5])
async def test_a_broken_clock_is_an_internal_error(time):
    """SI-7: without a time nothing can be told to be in time."""
    async with Desk(request()) as desk:
        desk.now = time
        refused = await desk.refusal("approve", "apr_1", by=MIA)
        desk.now = NOW
        assert (await desk.approvals.get("apr_1")).decisions == ()
    assert refused.code is ErrorCode.INTERNAL_ERROR
    assert refused.stage is FailureStage.APPROVAL
