"""What was validated is what executes, whatever rules, policies, stages and callers do to it."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from capgate import (
    Actor,
    ApprovalRule,
    Engine,
    Pipeline,
    Redact,
    Stage,
    allow,
    input_hash,
    policy,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
BOSS = Actor("u_boss")
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
LEAVES = st.none() | st.booleans() | st.integers() | TEXT
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)
INPUTS = st.fixed_dictionaries({"a": st.lists(JSON, max_size=3), "b": JSON})
MEDDLERS = st.sets(
    st.sampled_from(["discovery", "access", "policy", "stage", "authorize", "late", "execution"])
)


def spoil(value, seen=()):
    """Change everything in a value that can be changed, as deep as it goes."""
    if any(value is each for each in seen):
        return
    seen = (*seen, value)
    if isinstance(value, dict):
        for each in list(value.values()):
            spoil(each, seen)
        quietly(lambda: value.update(dict.fromkeys(value, "evil") | {"evil": "evil"}))
        quietly(lambda: value.pop(next(iter(value))))
    elif isinstance(value, list):
        for each in list(value):
            spoil(each, seen)
        quietly(lambda: value.append("evil"))
        quietly(value.reverse)


def quietly(change):
    try:
        change()
    except (TypeError, AttributeError):
        return


def spoil_view(view):
    """Change whatever a policy, a rule or a stage was handed."""
    spoil(view.input)
    spoil(dict(view.arguments))
    for each in view.arguments.values():
        spoil(each)
    quietly(lambda: view.arguments.update(a="evil"))
    for name in ("input", "arguments", "actor", "surface"):
        quietly(lambda name=name: setattr(view, name, "evil"))


class Meddling(Stage):
    def __init__(self, name):
        self.name = name

    def run(self, invocation):
        spoil_view(invocation)


def meddler(name, phase):
    def meddle(request):
        spoil_view(request)
        return allow()

    return policy(name, phases={phase})(meddle)


def permit(request):
    spoil_view(request)
    return True


def world(meddlers, payload, **fields):
    """Build an engine in which the chosen parts meddle; returns what the handler got."""
    pipeline = Pipeline.default()
    if "stage" in meddlers:
        pipeline = pipeline.before("policy", Meddling("early"))
    if "late" in meddlers:
        pipeline = pipeline.before("execution", Meddling("late"))
    phases = {"discovery": "discovery", "policy": "invocation", "execution": "execution"}
    engine = Engine(
        "test",
        pipeline=pipeline,
        audit=[audit := MemoryAudit()],
        policies=[meddler(name, phases[name]) for name in sorted(meddlers & phases.keys())],
        authorize=permit if "authorize" in meddlers else None,
    )
    got = []

    @engine.capability("cap", access=permit if "access" in meddlers else "authenticated", **fields)
    async def cap(a: list[Any], b: Any) -> dict[str, Any]:
        """Keep what came, spoil it and the caller's own, and give it back."""
        got.append(copy.deepcopy({"a": a, "b": b}))
        spoil(payload)
        return {"a": a, "b": b}

    return engine, audit, got


@settings(deadline=None, max_examples=120)
@given(INPUTS, MEDDLERS)
async def test_nobody_changes_what_executes(payload, meddlers):
    """The handler gets exactly what was validated, and the caller gets what it returned (SI-6)."""
    true = copy.deepcopy(payload)
    engine, _, got = world(meddlers, payload)
    output = await engine.invoke("cap", payload, actor=DANA)
    assert got == [true]
    assert output == true


@settings(deadline=None, max_examples=80)
@given(INPUTS, MEDDLERS)
async def test_nobody_changes_what_was_approved(payload, meddlers):
    """What executes on resume has the approved hash, whatever was done to any copy (SI-5)."""
    true = copy.deepcopy(payload)

    def show(value):
        spoil(value)
        return "shown"

    rule = Redact(approval_input=show)
    engine, audit, got = world(meddlers, payload, approval=ApprovalRule(), redact=rule)
    record = (await engine.attempt("cap", payload, actor=DANA)).approval
    spoil(payload)
    spoil(record.input)
    assert record.shown_input == "shown"
    seen = await engine.approvals.approve(record.id, by=BOSS)
    spoil(seen.input)
    await engine.resume(record.id)
    assert got == [true]
    assert {event.input_hash for event in audit.of_type("capability.completed")} == {
        input_hash(true)
    }


@settings(deadline=None, max_examples=80)
@given(INPUTS)
async def test_the_output_is_the_callers_own(payload):
    """Changing an output changes neither the handler's object nor a replay of the same key."""
    kept = copy.deepcopy(payload)
    true = copy.deepcopy(payload)
    engine = Engine("test")

    @engine.capability("cap")
    async def cap() -> dict[str, Any]:
        """Give one kept object."""
        return kept

    options = {"actor": DANA, "idempotency_key": "k"}
    spoil(await engine.invoke("cap", {}, **options))
    assert kept == true
    spoil(await engine.invoke("cap", {}, **options))
    assert await engine.invoke("cap", {}, **options) == true
