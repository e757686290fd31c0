"""Several policies and one verdict: the strictest wins, and the record is complete."""

from __future__ import annotations

from itertools import permutations, product

import anyio
import pytest

from capgate import (
    ApprovalRequired,
    Completed,
    Decision,
    allow,
    combine,
    deny,
    hide,
    policy,
    require_approval,
)
from capgate.policies import Verdict


def raising(request):
    raise RuntimeError("canary")


ANSWERS = {
    "hide": lambda request: hide(),
    "deny": lambda request: deny("No."),
    "error": raising,
    "require-approval": lambda request: require_approval("Why."),
    "allow": lambda request: allow(),
}
# From the strictest to the mildest, with what the caller gets.
OUTCOME = {
    "hide": "CAPABILITY_NOT_FOUND",
    "deny": "POLICY_DENIED",
    "error": "POLICY_FAILED",
    "require-approval": "approval-required",
    "allow": "completed",
}


def later(function):
    async def answer(request):
        await anyio.lowlevel.checkpoint()
        return function(request)

    return answer


def policies(*kinds, is_async=False):
    wrap = later if is_async else lambda function: function
    return [policy(f"p{n}:{kind}")(wrap(ANSWERS[kind])) for n, kind in enumerate(kinds)]


def result(outcome) -> str:
    return outcome.error.code.value if hasattr(outcome, "error") else outcome.status


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kinds", list(product(OUTCOME, repeat=2)), ids="+".join)
async def test_the_strictest_of_two_wins(court, kinds, is_async):
    """SI-7: hide > deny > error > require-approval > allow, for every pair in either order."""
    built = court(*policies(*kinds, is_async=is_async))
    strictest = min(kinds, key=list(OUTCOME).index)
    assert result(await built.judge()) == OUTCOME[strictest]
    assert built.ran == ([1] if strictest == "allow" else [])


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("kinds", list(permutations(OUTCOME, 3)), ids="+".join)
async def test_all_are_asked_and_recorded_in_order(court, kinds, is_async):
    """No short cut: whatever comes first, the others are on record (reference A 49, 50, 55)."""
    built = court(*policies(*kinds, is_async=is_async))
    await built.judge()
    assert built.decisions() == [(f"p{n}:{kind}", kind) for n, kind in enumerate(kinds)]


async def test_the_engines_policies_come_first_then_the_capabilitys(court):
    """Each list in its own order (reference A 51)."""
    asked = []

    def named(name):
        return policy(name)(lambda request: asked.append(name) or allow())

    built = court(named("e1"), named("e2"), own=[named("c1"), named("c2")])
    await built.judge()
    assert asked == ["e1", "e2", "c1", "c2"]
    assert [name for name, _ in built.decisions()] == asked


async def test_a_group_is_recorded_by_its_members(court):
    """`combine` groups for the author; the audit tells who said what (reference A 72)."""
    inner = combine("inner", *policies("allow", "deny"))
    built = court(combine("outer", inner, policy("last")(ANSWERS["allow"])))
    assert result(await built.judge()) == "POLICY_DENIED"
    assert built.decisions() == [("p0:allow", "allow"), ("p1:deny", "deny"), ("last", "allow")]


async def test_a_member_keeps_its_own_phase(court):
    """A group does not move its members to other phases."""
    early = policy("early", phases={"invocation"})(lambda r: allow())
    late = policy("late", phases={"execution"})(lambda r: deny("No."))
    built = court(combine("both", early, late))
    assert result(await built.judge()) == "POLICY_DENIED"
    found = built.audit.events[-1].data["policy_decisions"]
    assert [(each["policy"], each["phase"]) for each in found] == [
        ("early", "invocation"),
        ("late", "execution"),
    ]


async def test_the_first_denial_speaks(court):
    """Its message is shown, its reason recorded (reference A 63)."""
    first = policy("first")(lambda r: deny("Over the limit.", reason="limit"))
    second = policy("second")(lambda r: deny("Not on Sundays.", reason="sunday"))
    built = court(first, second)
    error = (await built.judge()).error
    assert (error.public_message, error.reason) == ("Over the limit.", "limit")
    assert built.audit.events[-1].data["policy_reason"] == "limit"
    reasons = [each.get("reason") for each in built.audit.events[-1].data["policy_decisions"]]
    assert reasons == ["limit", "sunday"]


async def test_metadata_is_in_the_audit_on_success_too(court):
    """Reference A 64: successful runs recorded no stances, and allow's metadata was dropped."""
    built = court(policy("limit")(lambda r: allow(limit=500, spent=20)))
    assert isinstance(await built.judge(), Completed)
    (record,) = built.audit.of_type("capability.completed")[0].data["policy_decisions"]
    assert record["metadata"] == {"limit": 500, "spent": 20}
    assert record["decision"] == "allow"


async def test_decisions_are_in_the_audit_of_a_suspended_call(court):
    """Reference A 64: neither did a request for approval."""
    built = court(*policies("allow", "require-approval"))
    assert isinstance(await built.judge(), ApprovalRequired)
    assert [kind for _, kind in built.decisions()] == ["allow", "require-approval"]


@pytest.mark.parametrize(
    "answer",
    [None, True, 1, "allow", Verdict.ALLOW, allow, {"verdict": "allow"}, object(), KeyError("x")],
    ids=lambda answer: type(answer).__name__,
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_anything_but_a_decision_fails_closed(court, answer, is_async):
    """SI-7: POLICY_FAILED, recorded as error, even beside an allow (reference A 57)."""
    function = (lambda request: answer) if not is_async else later(lambda request: answer)
    built = court(policy("odd")(function), *policies("allow"))
    error = (await built.judge()).error
    assert (error.code, error.stage, error.exposed) == ("POLICY_FAILED", "policy", False)
    assert built.decisions() == [("odd", "error"), ("p0:allow", "allow")]
    assert built.ran == []


HANDMADE = {
    "text-allow": {"verdict": "allow"},
    "nonsense": {"verdict": "nonsense"},
    "none": {"verdict": None},
    "not-evaluated": {"verdict": Verdict.NOT_EVALUATED},
    "error": {"verdict": Verdict.ERROR},
    "no-reason": {"verdict": Verdict.REQUIRE_APPROVAL},
    "nan": {"verdict": Verdict.REQUIRE_APPROVAL, "reason": "Why.", "expires_in": float("nan")},
    "negative": {"verdict": Verdict.REQUIRE_APPROVAL, "reason": "Why.", "expires_in": -5},
    "approvers": {"verdict": Verdict.REQUIRE_APPROVAL, "reason": "Why.", "approvers": "manager"},
    "message": {"verdict": Verdict.DENY, "message": 5},
}


@pytest.mark.parametrize("fields", HANDMADE.values(), ids=HANDMADE)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_decision_made_by_hand_is_checked_like_any_other(court, fields, is_async):
    """SI-7: a malformed answer is a broken policy, never an opening (reference A 62)."""
    function = later(lambda r: Decision(**fields)) if is_async else lambda r: Decision(**fields)
    built = court(policy("odd")(function), *policies("allow"))
    assert result(await built.judge()) == "POLICY_FAILED"
    assert built.decisions() == [("odd", "error"), ("p0:allow", "allow")]
    assert built.ran == []
