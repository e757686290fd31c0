"""Approver rules: every one must say exactly True, and any doubt refuses."""

from __future__ import annotations

import anyio
import pytest

from capgate.approvals import Approvals, ApprovalStatus, MemoryApprovals, RuleBook
from capgate.call import Actor, Overrun
from capgate.capability import requires
from capgate.errors import CapabilityError, ErrorCode, Forbidden, public_error
from capgate.testing.sample_approvals import NOW, sample

MIA = Actor("mia", permissions={"orders:approve"})


class Clock:
    def now(self):
        return NOW


async def approve(*rules, by=MIA, timeout=5.0, **changes):
    """Decide a request with these rules and return the record it became."""
    book, store = RuleBook(), MemoryApprovals()
    references = tuple(book.register(rule) for rule in rules)
    await store.create(sample("apr_1", approver_rules=references, **changes))
    desk = Approvals(store, clock=Clock(), rulebook=book, timeout=timeout, deps="the deps")
    try:
        return await desk.approve("apr_1", by=by)
    finally:
        stored = await store.get("apr_1")
        assert stored.input == {"order_id": "ord_42", "amount": "49.00"}


async def refusal(*rules, **options) -> CapabilityError:
    with pytest.raises(CapabilityError) as caught:
        await approve(*rules, **options)
    assert caught.value.code is ErrorCode.FORBIDDEN
    return caught.value


@pytest.mark.parametrize("kind", ["service", "automation", "anonymous"])
async def test_without_rules_only_a_user_may_decide(kind):
    """SI-4: an approval is a person's, unless a rule says otherwise."""
    assert (await refusal(by=Actor("bot", kind))).exposed
    assert (await approve(by=Actor("mia"))).status is ApprovalStatus.APPROVED


async def test_a_rule_may_entitle_a_service_but_never_an_anonymous_actor():
    """Anonymous never decides, whatever a rule says."""
    service = Actor("bot", "service")
    assert (await approve(lambda r: True, by=service)).status is ApprovalStatus.APPROVED
    await refusal(lambda r: True, by=Actor.anonymous())


async def test_permissions_entitle():
    """`requires(...)` reads the approver's permissions."""
    rule = requires("orders:approve")
    assert (await approve(rule)).status is ApprovalStatus.APPROVED
    assert (await refusal(rule, by=Actor("max"))).exposed


async def test_every_rule_must_be_satisfied():
    """Merged requirements do not weaken one another."""
    assert (await approve(lambda r: True, lambda r: True)).status is ApprovalStatus.APPROVED
    await refusal(lambda r: True, lambda r: False)


@pytest.mark.parametrize("answer", [False, None, 1, "yes", object()])
async def test_only_true_is_yes(answer):
    """SI-1: anything but True refuses."""

    async def slowly(request):
        return answer

    await refusal(lambda r: answer)
    await refusal(slowly)


async def test_a_rule_sees_the_approver_and_the_record():
    """The request is over the approver; `.record` is what they decide on."""
    seen = []
    await approve(lambda r: seen.append(r) or True)
    (request,) = seen
    assert (request.actor, request.record.actor.id) == (MIA, "dana")
    assert (request.capability_id, request.surface) == ("orders.refund", "direct")
    assert request.input == {"order_id": "ord_42", "amount": "49.00"}
    assert request.arguments["order_id"] == "ord_42"
    assert request.deps == "the deps"


async def test_what_a_rule_changes_nobody_else_sees():
    """A rule gets a copy: the next rule and the store have the true input."""
    seen = []

    def meddle(request) -> bool:
        request.record.input["amount"] = "0"
        request.input["amount"] = "0"
        return True

    await approve(meddle, lambda r: seen.append(r.record.input["amount"]) or True)
    assert seen == ["49.00"]


@pytest.mark.parametrize("error", [RuntimeError("canary"), Forbidden("canary"), TimeoutError()])
async def test_a_broken_rule_refuses_and_keeps_its_cause_private(error):
    """SI-7, SI-9: not exposed, whatever the rule raised."""

    def broken(request):
        raise error

    refused = await refusal(broken)
    assert refused.__cause__ is error
    assert public_error(refused)["code"] == "INTERNAL_ERROR"


async def test_a_rule_that_does_not_answer_in_time_refuses():
    """SI-12: the rules of one decision share one limit."""
    refused = await refusal(lambda r: anyio.sleep_forever(), timeout=0.01)
    assert not refused.exposed
    assert isinstance(refused.__cause__, Overrun)


async def test_a_rule_that_this_process_does_not_know_refuses():
    """SI-7: an unresolvable rule entitles nobody, not everybody."""
    book, store = RuleBook(), MemoryApprovals()
    await store.create(sample("apr_1", approver_rules=({"rule": "os:getcwd"},)))
    desk = Approvals(store, clock=Clock(), rulebook=book)
    with pytest.raises(CapabilityError) as caught:
        await desk.approve("apr_1", by=MIA)
    assert caught.value.code is ErrorCode.FORBIDDEN
    assert not caught.value.exposed


async def test_the_approver_cannot_be_changed_while_rules_run():
    """SI-3: rules judge the actor that was captured."""
    attributes = {"roles": []}
    actor = Actor("max", attributes=attributes)

    async def promote(request):
        actor.attributes["roles"].append("manager")
        await anyio.lowlevel.checkpoint()
        return True

    await refusal(promote, lambda r: "manager" in r.actor.attributes["roles"], by=actor)
