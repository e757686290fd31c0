"""What a policy says becomes evidence: exactly as it was said, and harmless."""

from __future__ import annotations

import json

import pytest

from capgate import allow, deny, policy, public_error, require_approval


def answering(answer):
    return policy("judge")(lambda request: answer)


def metadata_of(court):
    (record,) = court.audit.events[-1].data["policy_decisions"]
    return record["metadata"]


async def test_nested_metadata_is_captured_too(court):
    """Events are immutable: what the author changes later is not what was answered."""
    limits = {"daily": [500]}
    built = court(answering(allow(limits=limits)))
    await built.judge()
    limits["daily"].append(666)
    assert built.audit.events[-1].to_dict()["data"]["policy_decisions"][0]["metadata"] == {
        "limits": {"daily": [500]}
    }


async def test_evidence_cannot_be_changed_by_a_sink(court):
    """One sink's handiwork is not another's evidence."""
    built = court(answering(allow(limits={"daily": [500]})))
    await built.judge()
    with pytest.raises((TypeError, AttributeError)):
        metadata_of(built)["limits"]["daily"].append(666)


@pytest.mark.parametrize(
    "odd",
    [object(), {1, 2}, float("nan"), "\ud800", 10**400, {1: 2}, [lambda: 1]],
    ids=lambda value: type(value).__name__,
)
async def test_odd_metadata_does_not_break_the_call_or_the_event(court, odd):
    """An event is plain JSON whatever an author put into it."""
    built = court(answering(allow(odd=odd)))
    outcome = await built.judge()
    assert outcome.status in {"completed", "failed"}
    text = json.dumps(built.audit.events[-1].to_dict(), allow_nan=False)
    assert json.loads(text)["type"].startswith("capability.")


@pytest.mark.parametrize("text", ["", "\x00", "\ud800", "x" * 100_000, "\u202e"])
async def test_odd_messages_never_break_the_refusal(court, text):
    """The public form of a denial can always be built and sent."""
    outcome = await court(answering(deny(text, reason=text))).judge()
    assert outcome.error.code == "POLICY_DENIED"
    assert json.dumps(public_error(outcome.error)).encode()


@pytest.mark.parametrize("reason", ["\ud800", "x" * 100_000, "\x00"])
async def test_odd_reasons_never_open_the_gate(court, reason):
    """A request is made with the reason, or the call is refused; it does not run."""
    built = court(answering(require_approval(reason)))
    outcome = await built.judge()
    assert outcome.status in {"approval-required", "failed"}
    assert built.ran == []


@pytest.mark.parametrize("window", [1e9, 1e12, 1e18, 1e300])
async def test_a_window_beyond_the_calendar_never_opens_the_gate(court, window):
    """The request lapses at some time, or the call is refused; it does not run."""
    built = court(policy("judge")(lambda request: require_approval("Why.", expires_in=window)))
    outcome = await built.judge()
    if outcome.status == "approval-required":
        assert outcome.approval.expires_at > outcome.approval.requested_at
    else:
        assert outcome.error.code in {"POLICY_FAILED", "INTERNAL_ERROR"}
    assert built.ran == []
