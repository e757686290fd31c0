"""What the audit hears of a request that an inline handler was asked about: one end, and no gap."""

from __future__ import annotations

import anyio
import pytest

from capgate import Actor, ApprovalConfig, ApprovalRule, policy, require_approval
from capgate.approvals import ApprovalDecision

DANA, MIA = Actor("u_dana"), Actor("u_mia")
ASKED = ("approval_requested", False)

STORIES = {
    "yes": (1, True, MIA, [ASKED, "approved", "started", "completed"]),
    "no": (1, False, MIA, [ASKED, "rejected", "failed"]),
    "one-of-two": (2, True, MIA, [ASKED, "approved", ("approval_requested", True)]),
    "no-of-two": (2, False, MIA, [ASKED, "rejected", "failed"]),
    "self": (2, True, DANA, [ASKED, "denied", "failed"]),
}


def story(built):
    """Every event but the first, with what it says about suspension."""
    return [
        (kind, event.data["suspended"]) if kind == "approval_requested" else kind
        for kind, event in zip(built.told(), built.audit.events, strict=True)
    ][1:]


@pytest.mark.parametrize(("quorum", "approved", "by", "expected"), STORIES.values(), ids=STORIES)
async def test_an_answered_call_has_one_terminal_event(world, quorum, approved, by, expected):
    """SI-12: a request is only told as suspended once that is how the call ends."""

    async def handler(record):
        return ApprovalDecision(approved=approved, by=by)

    built = world(approvals=ApprovalConfig(handler=handler)).add(
        approval=ApprovalRule(quorum=quorum)
    )
    await built.call()
    assert story(built) == expected


async def test_a_request_is_told_although_the_call_was_stopped(world):
    """The store holds it: the audit must name it."""

    async def handler(record):
        await anyio.sleep_forever()

    built = world(approvals=ApprovalConfig(handler=handler)).add(approval=ApprovalRule())
    await built.call(timeout=0.01)
    (record,) = await built.engine.approvals.find()
    assert story(built) == [ASKED, "cancelled"]
    assert built.audit.events[1].data["approval_id"] == record.id


async def test_a_second_request_names_the_one_it_replaces(world):
    """The first is spent by it: the audit says by which."""

    @policy("late", phases={"execution"})
    def late(request):
        return require_approval("Large amount.", type="cfo")

    built = world(policies=[late]).add(approval=ApprovalRule("manager"))
    first = await built.granted()
    second = (await built.resume(first)).approval
    event = built.audit.of_type("capability.approval_requested")[-1]
    assert (event.data["approval_id"], event.data["replaces"]) == (second.id, first.id)
    assert await built.status(first) == "consumed"
