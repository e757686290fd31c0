"""A refusal is never overturned, whatever else the stages, rules and policies of a call say."""

from __future__ import annotations

from typing import NamedTuple

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from capgate import (
    Actor,
    CapabilityError,
    Engine,
    Pipeline,
    Stage,
    allow,
    deny,
    hide,
    policy,
    require_approval,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
STRICTEST = ("hide", "deny", "error", "junk", "ask", "allow")
CODES = {
    "hide": "CAPABILITY_NOT_FOUND",
    "deny": "POLICY_DENIED",
    "error": "POLICY_FAILED",
    "junk": "POLICY_FAILED",
    "ask": "approval-required",
}
REFUSES = ("POLICY_DENIED", "FORBIDDEN", "RATE_LIMITED", "broken")
PLACES = ("input-validation", "authentication", "authorization", "policy", "approval")

ANSWERS = st.sampled_from(STRICTEST)
BATCH = st.lists(st.tuples(ANSWERS, st.booleans()), max_size=4)
STAGES = st.dictionaries(
    st.sampled_from(PLACES), st.tuples(st.sampled_from(("pass", *REFUSES)), st.booleans())
)


class Case(NamedTuple):
    """What everything that may refuse one call says; each `bool` says whether it is async."""

    discovery: list
    invocation: list
    execution: list
    permitted: bool
    stages: dict


CASES = st.builds(Case, BATCH, BATCH, BATCH, st.booleans(), STAGES)


def answer(word):
    """Say what a policy was told to say."""
    if word == "error":
        raise ValueError("secret")
    return {
        "hide": hide(),
        "deny": deny(),
        "junk": True,
        "ask": require_approval("Ask."),
        "allow": allow(),
    }[word]


def policy_of(name, phase, word, *, later):
    """Make a policy, sync or async."""

    def now(request):
        return answer(word)

    async def then(request):
        await anyio.lowlevel.checkpoint()
        return answer(word)

    return policy(name, phases={phase})(then if later else now)


class Saying(Stage):
    """A stage that passes or refuses, sync or async."""

    def __init__(self, place, word, *, later):
        self.name = f"after-{place}"
        self.word = word
        self.later = later

    def run(self, invocation):
        return self.then() if self.later else self.judge()

    async def then(self):
        await anyio.lowlevel.checkpoint()
        self.judge()

    def judge(self):
        if self.word == "broken":
            raise ValueError("secret")
        if self.word != "pass":
            raise CapabilityError(self.word)


def strictest(batch):
    """Return the strictest answer of a batch, None when it lets the call go on."""
    words = [word for word, _ in batch]
    first = min(words, key=STRICTEST.index, default="allow")
    return None if first == "allow" else first


def expected(case):
    """Return the code of the first refusal in pipeline order, `completed` when there is none."""
    if strictest(case.discovery) not in {None, "ask"}:
        return "CAPABILITY_NOT_FOUND"
    asked = False
    for place in PLACES:
        if place == "authorization" and not case.permitted:
            return "FORBIDDEN"
        if place == "policy" and (word := strictest(case.invocation)):
            asked = word == "ask"
            if not asked:
                return CODES[word]
        if place == "approval" and asked:
            return "approval-required"
        word, _ = case.stages.get(place, ("pass", False))
        if word != "pass":
            return "POLICY_FAILED" if word == "broken" else word
    last = strictest(case.execution)
    return "completed" if last is None else CODES[last]


def engine_of(case):
    """Build the engine of a case; returns it with its audit and what ran."""
    batches = {
        "discovery": case.discovery,
        "invocation": case.invocation,
        "execution": case.execution,
    }
    policies = [
        policy_of(f"{phase}-{n}", phase, word, later=later)
        for phase, batch in batches.items()
        for n, (word, later) in enumerate(batch)
    ]
    pipeline = Pipeline.default()
    for place, (word, later) in case.stages.items():
        pipeline = pipeline.after(place, Saying(place, word, later=later))
    audit, ran = MemoryAudit(), []
    engine = Engine("test", pipeline=pipeline, audit=audit, on_internal_error=lambda _: None)

    @engine.capability("cap", access=lambda request: case.permitted, policies=policies)
    async def cap() -> None:
        """Note that it ran."""
        ran.append(1)

    return engine, audit, ran


@settings(deadline=None, max_examples=150)
@given(CASES)
async def test_the_strictest_refusal_stands(case):
    """The outcome is the first refusal in pipeline order; a batch's is its strictest (SI-7)."""
    engine, audit, ran = engine_of(case)
    outcome = await engine.attempt("cap", actor=DANA)
    code = getattr(getattr(outcome, "error", None), "code", outcome.status)
    assert code == expected(case)
    assert ran == ([1] if code == "completed" else [])
    assert [event.type.split(".")[1] for event in audit.events].count("started") == len(ran)


@settings(deadline=None, max_examples=80)
@given(CASES)
async def test_an_explanation_agrees_with_the_call(case):
    """`explain` says beforehand what every stage before execution will say."""
    engine, _, ran = engine_of(case._replace(execution=[]))
    found = await engine.explain("cap", actor=DANA)
    assert ran == []
    outcome = await engine.attempt("cap", actor=DANA)
    verdicts = {"completed": "would-execute", "approval-required": "approval-required"}
    assert found.verdict == verdicts.get(outcome.status, "refused")


@settings(deadline=None, max_examples=80)
@given(BATCH)
async def test_discovery_agrees_with_the_call(batch):
    """What a walk lists is callable as far as discovery goes, what it hides is missing."""
    engine, _, _ = engine_of(Case(batch, [], [], permitted=True, stages={}))
    listed = await engine.discover("direct", actor=DANA)
    outcome = await engine.attempt("cap", actor=DANA)
    assert bool(listed) is (outcome.status == "completed")
    if not listed:
        assert outcome.error.code == "CAPABILITY_NOT_FOUND"


@settings(deadline=None, max_examples=60)
@given(BATCH)
async def test_every_decision_is_recorded(batch):
    """Every policy of a batch is in the audit, in order, whatever the verdict was."""
    engine, audit, _ = engine_of(Case([], batch, [], permitted=True, stages={}))
    await engine.attempt("cap", actor=DANA)
    recorded = [
        (each["policy"], each["decision"]) for each in audit.events[-1].data["policy_decisions"]
    ]
    said = {"ask": "require-approval", "junk": "error"}
    assert recorded == [
        (f"invocation-{n}", said.get(word, word)) for n, (word, _) in enumerate(batch)
    ]
