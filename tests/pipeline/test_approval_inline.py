"""An inline handler answers within the call, under the same rules as everybody."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRequired,
    ApprovalRule,
    Cancelled,
    CancelToken,
    Completed,
    allow,
    policy,
    require_approval,
    requires,
)
from capgate.approvals import ApprovalDecision

DANA, MIA, MAX = Actor("u_dana"), Actor("u_mia"), Actor("u_max")


def answering(decision):
    async def handler(record):
        return decision() if callable(decision) else decision

    return ApprovalConfig(handler=handler)


def yes(by=MIA):
    return ApprovalDecision(approved=True, by=by)


def no(by=MIA):
    return ApprovalDecision(approved=False, by=by)


async def test_a_yes_completes_in_one_call(world):
    """The whole story under one execution; the grant is spent (reference A 141, 146)."""
    built = world(approvals=answering(yes())).add(approval=ApprovalRule())
    outcome = await built.call({"n": 3})
    assert isinstance(outcome, Completed)
    assert built.told() == ["requested", "approval_requested", "approved", "started", "completed"]
    (record,) = await built.engine.approvals.find()
    assert (record.status, record.consumed_by) == ("consumed", outcome.execution_id)


async def test_a_call_that_is_answered_inline_is_not_suspended(world):
    """`suspended` is False, so that this event is not taken for the terminal one."""
    built = world(approvals=answering(yes())).add(approval=ApprovalRule())
    await built.call()
    (event,) = built.audit.of_type("capability.approval_requested")
    assert event.data["suspended"] is False


async def test_the_approver_is_the_actor_of_the_decision(world):
    """Reference A 103: inline decisions were attributed to the requester."""
    built = world(approvals=answering(yes())).add(approval=ApprovalRule())
    await built.call()
    (event,) = built.audit.of_type("capability.approved")
    assert event.actor == {"id": "u_mia", "kind": "user"}


async def test_the_handler_learns_who_approved(world):
    """`ctx.approval` and execution-phase policies have the record (reference A 146)."""
    seen = []

    @policy("spy", phases={"execution"})
    def spy(request):
        seen.append([each.by for each in request.approval.decisions])
        return allow()

    built = world(approvals=answering(yes()), policies=[spy]).add(approval=ApprovalRule())
    await built.call()
    assert seen == [[MIA]]


async def test_a_no_is_a_rejection(world):
    """APPROVAL_REJECTED, and the request is closed (reference A 142)."""
    built = world(approvals=answering(no())).add(approval=ApprovalRule())
    error = (await built.call()).error
    assert (error.code, error.stage) == ("APPROVAL_REJECTED", "approval")
    assert built.told() == ["requested", "approval_requested", "rejected", "failed"]
    (record,) = await built.engine.approvals.find()
    assert record.status == "rejected"
    assert built.ran == []


async def test_none_defers_to_the_store(world):
    """The call suspends and can be decided later (reference A 144)."""
    built = world(approvals=answering(None)).add(approval=ApprovalRule())
    record = await built.granted()
    assert (await built.resume(record)).status == "completed"


async def raising(record):
    raise RuntimeError("canary")


async def lying(record):
    return True


async def dressed_up(record):
    return {"approved": True, "by": MIA}


async def hanging(record):
    await anyio.sleep_forever()


def not_async(record):
    return yes()


async def half_built(record):
    return object.__new__(ApprovalDecision)


async def malformed(record):
    return ApprovalDecision(approved="yes", by=MIA)


async def nobody(record):
    return ApprovalDecision(approved=True, by=None)


@pytest.mark.parametrize(
    "handler", [raising, lying, dressed_up, malformed, nobody, not_async, half_built, hanging]
)
async def test_a_malformed_answer_is_no_answer(world, handler):
    """SI-7: the request stays pending, the operator is told (reference A 144, 145, 147)."""
    rule = ApprovalRule(expires_in=0.05 if handler is hanging else 60)
    built = world(approvals=ApprovalConfig(handler=handler)).add(approval=rule)
    record = await built.asked()
    assert await built.status(record) == "pending"
    assert len(built.reported) == 1
    assert built.ran == []


async def test_a_late_answer_is_no_answer(world):
    """SI-7: a yes that comes after the request lapsed runs nothing (reference A 147)."""

    async def late(record):
        built.clock.advance(61)
        return yes()

    built = world(approvals=ApprovalConfig(handler=late)).add(approval=ApprovalRule(expires_in=60))
    outcome = await built.call()
    assert not isinstance(outcome, Completed)
    assert built.ran == []


@pytest.mark.parametrize(
    ("by", "code"),
    [
        (DANA, "APPROVAL_SELF_APPROVAL"),
        (Actor.anonymous(), "FORBIDDEN"),
        (Actor("bot", "automation"), "FORBIDDEN"),
        (Actor("bot", "service"), "FORBIDDEN"),
    ],
    ids=["self", "anonymous", "automation", "service"],
)
async def test_an_inline_approver_must_be_entitled(world, by, code):
    """SI-4: within the call or not (reference A 143)."""
    built = world(approvals=answering(yes(by))).add(approval=ApprovalRule())
    error = (await built.call()).error
    assert error.code == code
    (record,) = await built.engine.approvals.find()
    assert record.status == "pending"
    assert "approved" not in built.told()
    assert built.ran == []


async def test_the_approver_rules_apply_inline(world):
    """SI-4: a rule that names managers is not satisfied by anybody else."""
    rule = ApprovalRule(approvers=requires("manager"))
    assert (await world(approvals=answering(yes())).add(approval=rule).call()).error.code == (
        "FORBIDDEN"
    )
    boss = Actor("boss", permissions={"manager"})
    built = world(approvals=answering(yes(boss))).add(approval=rule)
    assert (await built.call()).status == "completed"


async def test_self_approval_where_all_allow_it(world):
    """`allow_self` is the one exception."""
    built = world(approvals=answering(yes(DANA))).add(approval=ApprovalRule(allow_self=True))
    assert (await built.call(actor=DANA)).status == "completed"


async def test_a_quorum_is_not_reached_by_one_inline_yes(world):
    """The call suspends with one answer on record; the second approver completes it."""
    built = world(approvals=answering(yes())).add(approval=ApprovalRule(quorum=2))
    outcome = await built.call()
    assert isinstance(outcome, ApprovalRequired)
    assert [each.by for each in outcome.approval.decisions] == [MIA]
    record = await built.engine.approvals.approve(outcome.approval.id, by=MAX)
    assert (await built.resume(record)).status == "completed"


async def test_the_inline_handler_runs_inside_the_token(world):
    """A stopped call does not wait for an answer, nor take one (reference A 147)."""
    token = CancelToken()

    async def handler(record):
        token.cancel()
        await anyio.sleep_forever()

    built = world(approvals=ApprovalConfig(handler=handler)).add(approval=ApprovalRule())
    outcome = await built.call(cancel=token)
    assert isinstance(outcome, Cancelled)
    assert (outcome.error.code, outcome.effect) == ("CANCELLED", "none")
    assert built.ran == []
    assert built.told()[-1] == "cancelled"


async def test_the_inline_handler_runs_inside_the_deadline(world):
    """The deadline of the call bounds it: TIMEOUT, nothing has run (reference A 147)."""
    built = world(approvals=ApprovalConfig(handler=hanging)).add(approval=ApprovalRule())
    outcome = await built.call(timeout=0.02)
    assert isinstance(outcome, Cancelled)
    assert (outcome.error.code, outcome.effect) == ("TIMEOUT", "none")


async def test_a_yes_after_the_token_fired_runs_nothing(world):
    """SI-7: an answer that was given anyway does not outrun the caller's stop."""
    token = CancelToken()

    async def handler(record):
        token.cancel()
        return yes()

    built = world(approvals=ApprovalConfig(handler=handler)).add(approval=ApprovalRule())
    outcome = await built.call(cancel=token)
    assert (outcome.status, built.ran) == ("cancelled", [])


async def test_the_inline_handler_cannot_change_the_request(world):
    """SI-6: it is shown a copy."""

    async def handler(record):
        record.input["n"] = 666
        record.shown_input["n"] = 666
        return yes()

    built = world(approvals=ApprovalConfig(handler=handler)).add(approval=ApprovalRule())
    assert (await built.call({"n": 3})).output == 3


async def test_a_policys_requirement_is_answered_inline_too(world):
    """Whoever asked for it, one desk answers."""
    ask = policy("ask")(lambda r: require_approval("Why."))
    built = world(approvals=answering(yes()), policies=[ask]).add()
    assert (await built.call()).status == "completed"


async def test_the_engine_says_when_it_was_decided(world):
    """A handler brings the answer and its comment; the time is the engine's."""
    built = world(
        approvals=answering(
            ApprovalDecision(
                approved=True, by=MIA, comment="ok", decided_at=datetime(2000, 1, 1, tzinfo=UTC)
            )
        )
    )
    await built.add(approval=ApprovalRule()).call()
    (record,) = await built.engine.approvals.find()
    assert record.decisions[0].decided_at == built.clock.now()
    assert record.decisions[0].comment == "ok"
