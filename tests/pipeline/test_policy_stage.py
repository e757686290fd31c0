"""The policy stage as a call meets it: where it stands, what it tells, what it costs a resume."""

from __future__ import annotations

import itertools

import pytest
from pydantic import BaseModel, Field

from capgate import (
    Actor,
    ApprovalRule,
    Pipeline,
    Stage,
    allow,
    combine,
    deny,
    hide,
    policy,
    public_error,
    require_approval,
)

DANA = Actor("u_dana")
NUMBERS = itertools.count()


def answering(answer, *phases, name="judge"):
    return policy(name, phases=set(phases) or {"invocation"})(lambda request: answer)


async def test_a_denial_shows_its_message_and_keeps_its_reason(world):
    """The message is the caller's, the reason the audit's (reference A 52)."""
    built = world(policies=[answering(deny("Over your limit.", reason="limit-500"))]).add()
    error = (await built.call()).error
    assert (error.code, error.stage, error.exposed) == ("POLICY_DENIED", "policy", True)
    assert public_error(error) == {
        "code": "POLICY_DENIED",
        "message": "Over your limit.",
        "retryable": False,
    }
    assert built.last()["reason"] == "policy-denied"
    assert built.last()["policy_reason"] == "limit-500"
    assert "limit-500" not in str(public_error(error))


async def test_a_denial_without_words_has_the_constant_ones(world):
    """The table's message (reference A 53)."""
    first = (await world(policies=[answering(deny())]).add().call()).error
    second = (await world(policies=[answering(deny(reason="x"))]).add().call()).error
    assert first.public_message == second.public_message
    assert first.public_message.strip()


@pytest.mark.parametrize("phase", ["invocation", "execution"])
@pytest.mark.parametrize(
    ("answer", "code"),
    [(deny(), "POLICY_DENIED"), (hide(), "CAPABILITY_NOT_FOUND"), (None, "POLICY_FAILED")],
    ids=["deny", "hide", "broken"],
)
async def test_a_refusal_has_stage_policy_in_every_phase(world, phase, answer, code):
    """And the event is `denied`: a gate refused, the handler was not entered (A 21, 67)."""
    built = world(policies=[answering(answer, phase)]).add()
    error = (await built.call()).error
    assert (error.code, error.stage) == (code, "policy")
    assert built.told() == ["requested", "denied"]
    assert built.ran == []


async def test_a_policy_of_two_phases_is_recorded_twice(world):
    """In order, with its phase (reference A 67)."""
    answers = {"invocation": allow(), "execution": deny()}
    both = policy("both", phases=set(answers))(lambda r: answers[r.phase])
    built = world(policies=[both]).add()
    await built.call()
    found = [(each["phase"], each["decision"]) for each in built.last()["policy_decisions"]]
    assert found == [("invocation", "allow"), ("execution", "deny")]


async def test_the_phases_run_in_the_order_of_the_pipeline(world):
    """Discovery, then invocation, then execution, whatever the order of declaration."""
    asked = []

    def named(phase):
        return policy(phase, phases={phase})(lambda r: asked.append(phase) or allow())

    built = world(policies=[named("execution"), named("invocation"), named("discovery")]).add()
    await built.call()
    assert asked == ["discovery", "invocation", "execution"]


async def test_execution_policies_run_after_the_approval(world):
    """They judge the world after the wait, with the approval in sight (reference A 124)."""
    seen = []
    late = policy("late", phases={"execution"})(lambda r: seen.append(r.approval) or allow())
    built = world(policies=[late]).add(approval=ApprovalRule())
    record = await built.granted()
    assert seen == []
    await built.resume(record)
    assert [each.id for each in seen] == [record.id]
    assert seen[0].decisions[0].by == Actor("u_mia")


async def test_policies_come_after_access_and_before_approval(world):
    """A stage between them sees exactly that order."""
    order = []

    def stage(name_):
        class Probe(Stage):
            name = name_

            def run(self, invocation):
                order.append(name_)

        return Probe()

    pipeline = (
        Pipeline.default()
        .after("authorization", stage("before-policy"))
        .after("policy", stage("after-policy"))
    )
    judge = policy("judge")(lambda r: order.append("policy") or require_approval("Why."))
    built = world(
        policies=[judge], pipeline=pipeline, authorize=lambda r: order.append("a") or True
    )
    await built.add().asked()
    assert order == ["a", "before-policy", "policy", "after-policy"]


async def test_a_policy_of_one_capability_judges_no_other(world):
    """Own policies are own."""
    built = world().add(policies=[answering(deny())]).add("other")
    assert (await built.call()).error.code == "POLICY_DENIED"
    assert (await built.call(id="other")).status == "completed"


async def test_a_group_on_a_capability_is_asked_whole(world):
    """Every member, in order."""
    group = combine("g", answering(allow(), name="a"), answering(deny("No."), name="b"))
    built = world().add(policies=[group])
    await built.call()
    assert [each["policy"] for each in built.last()["policy_decisions"]] == ["a", "b"]


async def test_a_hide_on_valid_input_looks_like_missing(world):
    """SI-8: it can only conceal once the input is valid; then it does (reference A 12)."""
    built = world(policies=[answering(hide())]).add()
    hidden, missing = await built.call(), await built.call(id="missing")
    assert public_error(hidden.error) == public_error(missing.error)
    assert str(hidden.error) == str(missing.error)
    assert built.audit.of_type("capability.denied")[0].data["reason"] == "hidden"


async def test_what_a_broken_policy_raised_is_reported_and_stays_inside(world):
    """SI-9: the operator has the cause, the caller the generic shape."""

    def broken(request):
        raise RuntimeError("canary")

    built = world(policies=[policy("broken")(broken)]).add()
    outcome = await built.call()
    assert "canary" not in str(public_error(outcome.error))
    assert "canary" not in str(outcome.error)
    assert str(built.reported[0].__cause__) == "canary"
    assert "canary" not in str([event.to_dict() for event in built.audit.events])


class Ticket(BaseModel):
    number: int = Field(default_factory=lambda: next(NUMBERS))


async def test_a_policys_default_is_the_handlers_default(world):
    """SI-6: what policies judged is what runs, also of a changing default (reference A 38)."""

    async def act(ticket: Ticket) -> int:
        return ticket.number

    seen = []
    phases = {"invocation", "execution"}
    spy = policy("spy", phases=phases)(lambda r: seen.append(r.input.number) or allow())
    outcome = await world(policies=[spy]).add(handler=act).call({})
    assert seen == [outcome.output] * 2


async def test_a_policy_cannot_change_what_the_next_one_is_asked(world):
    """SI-7: a request that is shared by a batch is no channel between its policies."""
    seen = []

    @policy("vandal")
    def vandal(request):
        try:
            request.phase = "discovery"
        except (AttributeError, TypeError):
            seen.append("refused")
        return allow()

    spy = policy("spy")(lambda r: seen.append((r.phase, r.input)) or allow())
    await world(policies=[vandal, spy]).add().call({"n": 3})
    assert seen[-1] == ("invocation", {"n": 3})


async def test_the_default_log_of_a_failure_holds_no_payload(world, capsys):
    """SI-10: a traceback is printed without what its frames held."""

    def broken(request):
        amount = request.arguments["n"]
        raise RuntimeError(type(amount).__name__)

    built = world(policies=[policy("broken")(broken)], on_internal_error=None).add()
    await built.call({"n": 987654321})
    printed = "".join(capsys.readouterr())
    assert "internal_error" in printed
    assert "987654321" not in printed
