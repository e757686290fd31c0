"""Requests that answer themselves."""

from __future__ import annotations

import pytest

from capgate import (
    ApprovalConfig,
    ApprovalRule,
    ConfigurationError,
    Context,
    Engine,
    PolicyRequest,
    policy,
    require_approval,
)
from capgate.approvals import ApprovalDecision, ApprovalStatus, MemoryApprovals
from capgate.testing import TestEngine, fake_actor

INLINE = [
    "capability.requested",
    "capability.approval_requested",
    "capability.approved",
    "capability.started",
    "capability.completed",
]


def saying(text):
    """Return a handler that only says this."""

    def handler() -> str:
        return text

    return handler


def nobody(request):
    """Admit no approver."""
    return False


def broken(request):
    """Fail for every approver."""
    raise RuntimeError("no directory")


def guarded(rule, **settings):
    """Build an engine with one capability that needs this approval, and one that calls it."""
    engine = Engine("guarded", **settings)
    engine.capability("pay", description="Pay.", approval=rule)(saying("paid"))

    @engine.capability("outer", description="Call on.")
    async def outer(context: Context) -> str:
        return await context.invoke("pay")

    return engine


async def test_auto_approve_completes_in_one_call(shop):
    """The call asks, is approved by a user, and executes: one execution, no suspension."""
    engine = TestEngine(shop.engine, approvals="auto-approve")
    assert await engine.invoke(shop.refund, {"order": "A1"}) == {"A1": 3}
    engine.audit.assert_sequence(*INLINE)
    (approved,) = engine.audit.of_type("capability.approved")
    assert approved.actor == {"id": "auto-approver", "kind": "user"}


async def test_auto_reject_refuses(shop):
    """The call fails with APPROVAL_REJECTED and nothing executes."""
    engine = TestEngine(shop.engine, approvals="auto-reject")
    outcome = await engine.attempt(shop.refund, {"order": "A1"})
    assert outcome.error.code == "APPROVAL_REJECTED"
    assert shop.ran == []


@pytest.mark.parametrize("rule", [nobody, broken, lambda request: request.actor.nothing])
@pytest.mark.parametrize(("answer", "ends"), [("approve", "completed"), ("reject", "failed")])
async def test_no_rule_stands_in_the_way(rule, answer, ends):
    """Whatever the approver rules say, the automatic approver is admitted."""
    own = guarded(ApprovalRule(approvers=rule))
    outcome = await TestEngine(own, approvals=f"auto-{answer}").attempt("pay")
    assert outcome.status == ends


@pytest.mark.parametrize("rule", [nobody, broken])
async def test_the_rules_hold_for_everybody_else(rule):
    """Beside the automatic approver nobody becomes entitled (SI-4)."""
    engine = TestEngine(guarded(ApprovalRule(approvers=rule, quorum=2)), approvals="auto-approve")
    outcome = await engine.engine.attempt("pay", actor=engine.actor)
    refused = outcome.approval.id
    with pytest.raises(Exception, match=r"FORBIDDEN|INTERNAL_ERROR"):
        await engine.approvals.approve(refused, by=fake_actor("mia"))


async def test_a_policy_that_asks_is_answered_too():
    """Requests made by a policy, with rules of its own, are approved as well."""

    @policy("ask", phases={"invocation"})
    def ask(request: PolicyRequest) -> object:
        return require_approval("Sure?", approvers=nobody)

    engine = TestEngine(guarded(None, policies=[ask]), approvals="auto-approve")
    assert await engine.invoke("pay") == "paid"


async def test_several_approvers_are_found():
    """A quorum is reached by as many users, and the call is resumed in a second execution."""
    engine = TestEngine(guarded(ApprovalRule(quorum=3)), approvals="auto-approve")
    assert await engine.invoke("pay") == "paid"
    approved = engine.audit.of_type("capability.approved")
    assert [event.actor["id"] for event in approved] == [
        "auto-approver",
        "auto-approver-2",
        "auto-approver-3",
    ]
    assert len(engine.audit.of_type("capability.requested")) == 2


async def test_a_quorum_is_rejected_at_once():
    """One automatic rejection ends a request for several approvers."""
    engine = TestEngine(guarded(ApprovalRule(quorum=3)), approvals="auto-reject")
    outcome = await engine.attempt("pay")
    assert outcome.error.code == "APPROVAL_REJECTED"
    assert len(engine.audit.of_type("capability.rejected")) == 1


async def test_nested_calls_are_answered():
    """A handler that calls on gets its answer within the call."""
    engine = TestEngine(guarded(ApprovalRule()), approvals="auto-approve")
    assert await engine.invoke("outer") == "paid"


async def test_the_requester_is_never_its_own_approver():
    """A requester of the same name gets another automatic approver (SI-4)."""
    actor = fake_actor("auto-approver")
    engine = TestEngine(guarded(ApprovalRule()), approvals="auto-approve", actor=actor)
    assert await engine.invoke("pay") == "paid"
    (approved,) = engine.audit.of_type("capability.approved")
    assert approved.actor["id"] == "auto-approver-2"


async def test_a_store_keeps_requests(shop):
    """With a store given, requests wait in it."""
    store = MemoryApprovals()
    engine = TestEngine(shop.engine, approvals=store)
    outcome = await engine.attempt(shop.refund, {"order": "A1"})
    assert (await store.get(outcome.approval.id)).status is ApprovalStatus.PENDING


async def test_a_configuration_is_used_as_it_is():
    """An `ApprovalConfig` of the test replaces the application's."""

    async def decide(record):
        return ApprovalDecision(approved=True, by=fake_actor("mia"))

    config = ApprovalConfig(handler=decide)
    engine = TestEngine(guarded(ApprovalRule()), approvals=config)
    assert await engine.invoke("pay") == "paid"


async def test_keys_of_the_application_are_kept():
    """With keys, automatic answers are sealed and resumed as any other."""
    config = ApprovalConfig(keys=[b"0123456789abcdef"])
    own = guarded(ApprovalRule(quorum=2), approvals=config)
    assert await TestEngine(own, approvals="auto-approve").invoke("pay") == "paid"


@pytest.mark.parametrize("wanted", ["auto", "", "AUTO-APPROVE", object(), 7, MemoryApprovals])
def test_other_answers_are_refused(shop, wanted):
    """What is neither a store nor a known answer is a ConfigurationError."""
    with pytest.raises(ConfigurationError):
        TestEngine(shop.engine, approvals=wanted)
