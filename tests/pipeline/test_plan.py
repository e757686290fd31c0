"""The prepared plan as data: which stages run for a capability, in order, and what was skipped."""

from __future__ import annotations

import json

import pytest

from capgate import (
    Actor,
    ApprovalRule,
    Engine,
    Limits,
    Pipeline,
    Redact,
    Retry,
    Skip,
    Stage,
    Step,
    allow,
    policy,
    requires,
)

ORDER = [
    "discovery",
    "input-validation",
    "authentication",
    "authorization",
    "policy",
    "approval",
    "execution",
    "output-validation",
]


class Hours(Stage):
    name = "hours"

    def bind(self, capability):
        if capability.side_effect == "read":
            return Skip("reading is always open")
        return Step(self.run, "business hours")

    def run(self, invocation):
        return None


class Plain(Stage):
    name = "plain"

    async def run(self, invocation):
        return None


def named(name, *phases):
    @policy(name, phases=set(phases) or {"invocation"})
    def rule(request):
        return allow()

    return rule


def plan_of(settings=None, **fields):
    """Return the plan of one capability as a mapping of stage to line."""
    engine = Engine("test", **settings or {})

    async def cap() -> int:
        """Give one."""
        return 1

    engine.capability("cap", **fields)(cap)
    return {line["stage"]: line for line in engine.describe("cap").plan}


def test_the_plan_is_the_pipeline_in_order():
    """The plan has one line per stage, custom ones included, in pipeline order."""
    pipeline = Pipeline.default().before("policy", Hours()).after("execution", Plain())
    order = list(plan_of({"pipeline": pipeline}))
    assert order == [*ORDER[:4], "hours", *ORDER[4:7], "plain", ORDER[7]]


def test_what_has_nothing_to_do_is_skipped_with_a_reason():
    """A public capability without policies and approvals skips those gates and says why."""
    plan = plan_of(access="public")
    skipped = {stage for stage, line in plan.items() if not line["runs"]}
    assert {"discovery", "authorization", "approval"} <= skipped
    assert all(plan[stage]["detail"] for stage in skipped)
    assert all(
        plan[stage]["runs"]
        for stage in ("input-validation", "authentication", "execution", "output-validation")
    )


@pytest.mark.parametrize(
    ("phase", "stage"),
    [("discovery", "discovery"), ("invocation", "policy"), ("execution", "execution")],
)
def test_policies_stand_where_they_run(phase, stage):
    """A policy of the engine and one of the capability are named, in order, in their stage."""
    plan = plan_of({"policies": [named("engine-wide", phase)]}, policies=[named("cap-own", phase)])
    assert plan[stage]["runs"]
    assert "engine-wide, cap-own" in plan[stage]["detail"]
    others = {"discovery", "policy", "execution"} - {stage}
    assert not any("engine-wide" in plan[other]["detail"] for other in others)


@pytest.mark.parametrize(
    ("fields", "stage", "words"),
    [
        ({"timeout": 7}, "execution", "7 s"),
        ({"timeout": 0.5}, "execution", "0.5 s"),
        ({}, "execution", "30 s"),
        ({"retry": Retry(3), "idempotent": True}, "execution", "3"),
        ({"max_concurrency": 2}, "execution", "concurrency"),
        ({"approval": ApprovalRule()}, "approval", "rule"),
        ({"access": requires("a")}, "authorization", "rule"),
        ({"redact": Redact(output=lambda value: value)}, "output-validation", "redact"),
    ],
)
def test_limits_and_rules_stand_in_the_plan(fields, stage, words):
    """Timeouts, retries, limits, rules and redaction are told where they apply."""
    assert words in plan_of(**fields)[stage]["detail"]


def test_the_engines_limits_stand_in_the_plan():
    """The engine's own timeout applies where a capability sets none."""
    assert "4 s" in plan_of({"limits": Limits(timeout=4)})["execution"]["detail"]


@pytest.mark.parametrize(
    ("side_effect", "line"),
    [
        ("write", {"stage": "hours", "runs": True, "detail": "business hours"}),
        ("read", {"stage": "hours", "runs": False, "detail": "reading is always open"}),
    ],
)
def test_a_custom_stage_tells_its_own_line(side_effect, line):
    """A custom stage's step or skip is in the plan in its own words."""
    pipeline = Pipeline.default().before("policy", Hours())
    plan = plan_of({"pipeline": pipeline}, side_effect=side_effect)
    assert dict(plan["hours"]) == line


def test_the_plan_is_frozen_data():
    """The plan is plain data that nobody can change (JSON once thawed)."""
    engine = Engine("test")

    @engine.capability("cap")
    async def cap() -> None:
        """Do nothing."""

    plan = engine.describe(cap).plan
    assert isinstance(plan, tuple)
    with pytest.raises(TypeError):
        plan[0]["runs"] = False
    assert json.loads(json.dumps([dict(line) for line in plan]))[0]["stage"] == "discovery"


class Noting(Stage):
    def __init__(self, name, ran, *, skips=False):
        self.name = name
        self.ran = ran
        self.skips = skips

    def bind(self, capability):
        return Skip("said so") if self.skips else Step(self.run)

    def run(self, invocation):
        self.ran.append(self.name)


async def test_the_plan_is_what_runs():
    """Stages that the plan calls running run, in that order; skipped ones do not."""
    ran = []
    pipeline = (
        Pipeline.default()
        .before("discovery", Noting("first", ran))
        .before("approval", Noting("never", ran, skips=True))
        .after("output-validation", Noting("last", ran))
    )
    engine = Engine("test", pipeline=pipeline)

    @engine.capability("cap", access="public")
    async def cap() -> None:
        """Do nothing."""

    await engine.invoke(cap, actor=Actor("u_dana"))
    planned = [line["stage"] for line in engine.describe(cap).plan if line["runs"]]
    assert ran == [stage for stage in planned if stage not in ORDER]
