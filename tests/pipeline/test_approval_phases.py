"""Approvals asked for at execution: a second sign-off is asked for, never ignored."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRequired,
    ApprovalRule,
    allow,
    deny,
    hide,
    policy,
    require_approval,
    requires,
)
from capgate.approvals import ApprovalDecision

MIA, CFO = Actor("u_mia"), Actor("u_cfo", permissions={"cfo"})


def late(answer, name="late"):
    return policy(name, phases={"execution"})(lambda request: answer)


SECOND = require_approval("Large amount.", type="cfo", approvers=requires("cfo"))


async def test_a_second_sign_off_suspends_again(world):
    """Reference A 70: it was ignored, whatever its type."""
    built = world(policies=[late(SECOND)]).add(approval=ApprovalRule("manager"))
    first = await built.granted({"n": 5})
    outcome = await built.resume(first)
    assert isinstance(outcome, ApprovalRequired)
    assert outcome.approval.id != first.id
    assert "cfo" in outcome.approval.types
    assert "Large amount." in outcome.approval.reasons
    assert built.ran == []


async def test_the_second_approval_executes(world):
    """With both sign-offs on record, the approved value runs once."""
    built = world(policies=[late(SECOND)]).add(approval=ApprovalRule("manager"))
    second = (await built.resume(await built.granted({"n": 5}))).approval
    await built.engine.approvals.approve(second.id, by=CFO)
    assert (await built.resume(second)).output == 5
    assert (await built.resume(second)).error.code == "APPROVAL_CONSUMED"
    assert built.ran == [5]


async def test_the_second_request_has_its_own_approvers(world):
    """SI-4: whoever signed off the first is not thereby entitled to the second."""
    built = world(policies=[late(SECOND)]).add(approval=ApprovalRule("manager"))
    second = (await built.resume(await built.granted())).approval
    with pytest.raises(Exception, match="FORBIDDEN"):
        await built.engine.approvals.approve(second.id, by=MIA)
    assert await built.status(second) == "pending"


async def test_the_second_request_takes_the_place_of_the_first_approval(world):
    """SI-5: one operation, one approval: the first is spent on the second, and runs nothing."""
    built = world(policies=[late(SECOND)]).add(approval=ApprovalRule("manager"))
    first = await built.granted()
    outcome = await built.resume(first)
    kept = await built.engine.approvals.get(first.id)
    assert (kept.status, kept.consumed_by) == ("consumed", outcome.execution_id)
    assert (await built.resume(first)).error.code == "APPROVAL_CONSUMED"
    assert built.ran == []


async def test_racing_resumes_make_one_second_request(world):
    """SI-5: the first approval can be spent on one request only."""
    built = world(policies=[late(SECOND)]).add(approval=ApprovalRule("manager"))
    first, outcomes = await built.granted(), []

    async def race():
        outcomes.append((await built.resume(first)).status)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(race)
    assert outcomes.count("approval-required") == 1
    assert len(await built.engine.approvals.find("pending")) == 1


@pytest.mark.parametrize("how", ["fails", "loses"])
async def test_a_second_request_that_could_not_be_made_gives_the_first_back(world, store, how):
    """APPROVAL_UNAVAILABLE, retryable: nothing waits, and nothing is lost."""
    built = world(policies=[late(SECOND)], approvals=store).add(approval=ApprovalRule("manager"))
    first = await built.granted()
    getattr(store, how).add("create")
    error = (await built.resume(first)).error
    assert (error.code, error.retryable) == ("APPROVAL_UNAVAILABLE", True)
    getattr(store, how).clear()
    assert await built.status(first) == "approved"
    assert await built.engine.approvals.find("pending") == []
    assert isinstance(await built.resume(first), ApprovalRequired)


async def test_a_first_approval_that_could_not_be_given_back_is_not_retryable(world, store):
    """It stays spent, and the error says so."""
    built = world(policies=[late(SECOND)], approvals=store).add(approval=ApprovalRule("manager"))
    first = await built.granted()
    store.fails.update({"create", "release"})
    error = (await built.resume(first)).error
    assert (error.code, error.retryable) == ("APPROVAL_UNAVAILABLE", False)
    assert built.ran == []


async def test_one_operation_is_not_executed_under_both_of_its_approvals(world):
    """SI-5: once the second has executed it, the first is worth nothing, whatever policies say."""
    strict = [True]

    @policy("late", phases={"execution"})
    def moody(request):
        return SECOND if strict[0] else allow()

    built = world(policies=[moody]).add(approval=ApprovalRule("manager"))
    first = await built.granted({"n": 5})
    second = (await built.resume(first)).approval
    await built.engine.approvals.approve(second.id, by=CFO)
    assert (await built.resume(second)).output == 5
    strict[0] = False
    assert (await built.resume(first)).status == "failed"
    assert built.ran == [5]


async def test_the_same_type_is_asked_for_once(world):
    """What the granted approval stands for is not asked for again."""
    again = late(require_approval("Once more.", type="manager"))
    built = world(policies=[again]).add(approval=ApprovalRule("manager"))
    assert (await built.resume(await built.granted())).status == "completed"


async def test_without_a_first_approval_it_suspends_like_any_gate(world):
    """On a fresh call too, and the resume of it executes (reference A 69)."""
    built = world(policies=[late(SECOND)]).add()
    record = await built.granted({"n": 5}, by=CFO)
    assert built.told()[-2:] == ["approval_requested", "approved"]
    assert (await built.resume(record)).output == 5


async def test_a_requirement_without_a_type_is_asked_for_once(world):
    """Its reason stands for it; resume does not ask for ever."""
    built = world(policies=[late(require_approval("Why."))]).add()
    assert (await built.resume(await built.granted())).status == "completed"


async def test_invocation_policies_do_not_run_again_on_resume(world):
    """They judged the request; execution policies judge the world after the wait (A 124)."""
    asked = []

    @policy("spy", phases={"discovery", "invocation", "execution"})
    def spy(request):
        asked.append((request.phase, request.approval is not None))
        return require_approval("Why.") if request.phase == "invocation" else allow()

    built = world(policies=[spy]).add()
    record = await built.granted()
    asked.clear()
    assert (await built.resume(record)).status == "completed"
    assert asked == [("discovery", True), ("execution", True)]


@pytest.mark.parametrize(
    ("answer", "code", "reason"),
    [
        (deny("Changed our mind.", reason="late"), "POLICY_DENIED", "policy-denied"),
        (hide(), "CAPABILITY_NOT_FOUND", "hidden"),
        (None, "POLICY_FAILED", "policy-failed"),
    ],
    ids=["deny", "hide", "broken"],
)
@pytest.mark.parametrize("gated", [True, False], ids=["resume", "fresh"])
async def test_an_execution_policy_refuses_at_stage_policy(world, gated, answer, code, reason):
    """In any phase a policy's refusal has stage policy; the grant is not burnt (A 21, 67, 68)."""
    built = world(policies=[late(answer)]).add(approval=ApprovalRule() if gated else None)
    if gated:
        record = await built.granted()
        error = (await built.resume(record)).error
        assert await built.status(record) == "approved"
    else:
        error = (await built.call()).error
    assert (error.code, error.stage, error.effect) == (code, "policy", "none")
    assert built.told()[-1] == "denied"
    assert built.last()["reason"] == reason
    assert built.ran == []


async def test_an_inline_answer_to_the_first_is_none_to_the_second(world):
    """Both requests are put to the handler, each under its own rules."""
    seen = []

    async def handler(record):
        seen.append(record.types)
        return ApprovalDecision(approved=True, by=CFO if "cfo" in record.types else MIA)

    built = world(policies=[late(SECOND)], approvals=ApprovalConfig(handler=handler))
    built.add(approval=ApprovalRule("manager"))
    assert (await built.call()).status == "completed"
    assert seen == [("manager",), ("manager", "cfo")]
