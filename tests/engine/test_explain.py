"""Explaining a call: every stage but execution, told as data, with no effect at all."""

from __future__ import annotations

import anyio
import pytest
import structlog.testing

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    Engine,
    FailureStage,
    Pipeline,
    Stage,
    allow,
    deny,
    hide,
    policy,
    require_approval,
)
from capgate.approvals import MemoryApprovals
from capgate.audit import MemoryAudit
from capgate.idempotency import MemoryIdempotency

DANA = Actor("u_dana")


class Lab:
    """An engine and everything an explanation must not touch."""

    def __init__(self, *policies, **settings) -> None:
        self.audit, self.ran, self.asked, self.reported = MemoryAudit(), [], [], []
        self.approvals, self.keys = MemoryApprovals(), MemoryIdempotency()
        self.engine = Engine(
            "test",
            policies=policies,
            audit=self.audit,
            idempotency=self.keys,
            on_internal_error=self.reported.append,
            **{"approvals": ApprovalConfig(self.approvals, handler=self.inline), **settings},
        )

    async def inline(self, record):
        self.asked.append(record)

    def add(self, **fields):
        async def act(n: int = 1) -> int:
            self.ran.append(n)
            return n

        self.engine.capability("act", **{"description": "Act.", **fields})(act)
        return self

    async def explain(self, input=None, *, id="act", actor=DANA, **options):
        return await self.engine.explain(id, input, actor=actor, **options)


def judge(answer, *phases):
    return policy("judge", phases=set(phases) or {"invocation"})(lambda request: answer)


async def test_a_call_that_would_execute():
    """Each stage that runs passes; the handler is not entered."""
    lab = Lab(judge(allow())).add()
    explanation = await lab.explain()
    assert explanation.verdict == "would-execute"
    assert explanation.stages == (
        ("input-validation", "passed", None),
        ("authentication", "passed", None),
        ("authorization", "passed", None),
        ("policy", "passed", None),
        ("approval", "passed", None),
    )
    assert lab.ran == []


REFUSALS = {
    "unknown": ({"id": "missing"}, {}, ("discovery", "refused", "unknown")),
    "unexposed": ({"surface": "mcp"}, {}, ("discovery", "refused", "not-exposed")),
    "invalid": ({"input": {"n": "x"}}, {}, ("input-validation", "refused", "INPUT_INVALID")),
    "nobody": ({"actor": None}, {}, ("authentication", "refused", "unauthenticated")),
    "malformed": ({"actor": "dana"}, {}, ("authentication", "refused", "unauthenticated")),
    "access": ({}, {"access": lambda r: False}, ("authorization", "refused", "forbidden")),
}


@pytest.mark.parametrize(("options", "fields", "last"), REFUSALS.values(), ids=REFUSALS)
async def test_a_call_that_would_be_refused_says_where_and_why(options, fields, last):
    """Concealed truths included: for trusted tooling only."""
    explanation = await Lab().add(**fields).explain(**options)
    assert explanation.verdict == "refused"
    assert explanation.stages[-1] == last
    assert all(verdict == "passed" for _, verdict, _ in explanation.stages[:-1])


def broken(request):
    raise RuntimeError("canary")


@pytest.mark.parametrize(
    ("rule", "last"),
    [
        (judge(deny("No.")), ("policy", "refused", "policy-denied")),
        (judge(hide()), ("policy", "refused", "hidden")),
        (policy("judge")(broken), ("policy", "refused", "policy-failed")),
        (judge(hide(), "discovery"), ("discovery", "refused", "hidden")),
        (judge(require_approval("Why.")), ("approval", "approval-required", None)),
    ],
    ids=["deny", "hide", "broken", "hidden-at-discovery", "approval"],
)
async def test_what_a_policy_would_make_of_it(rule, last):
    """The verdict of the stage, with the true reason."""
    assert (await Lab(rule).add().explain()).stages[-1] == last


async def test_an_explanation_is_data():
    """Frozen, and comparable."""
    explanation = await Lab().add().explain()
    with pytest.raises(AttributeError):
        explanation.verdict = "refused"
    assert explanation == await Lab().add().explain()


async def test_it_has_no_effect():
    """No record, no audit, no question to an inline handler, no report; one log line."""
    lab = Lab(judge(require_approval("Why."))).add(approval=ApprovalRule())
    with structlog.testing.capture_logs() as logs:
        assert (await lab.explain({"n": 987654})).verdict == "approval-required"
    assert [entry["event"] for entry in logs] == ["explained"]
    assert "987654" not in str(logs)
    assert await lab.approvals.find() == []
    assert (lab.audit.events, lab.asked, lab.reported, lab.ran) == ([], [], [], [])


async def test_a_broken_policy_is_told_without_its_text():
    """One log line, without what was raised."""
    with structlog.testing.capture_logs() as logs:
        await Lab(policy("judge")(broken)).add().explain()
    assert "canary" not in str(logs)


async def test_policies_are_told_that_it_is_a_dry_run():
    """Nothing may be consumed, in any phase that is asked; execution policies are not."""
    seen = []
    spy = policy("spy", phases={"discovery", "invocation", "execution"})(
        lambda r: seen.append((r.phase, r.dry_run)) or allow()
    )
    await Lab(spy).add().explain()
    assert seen == [("discovery", True), ("invocation", True)]


class Locking(Stage):
    """Takes a lock for the call, and gives it back when the call has settled."""

    name = "locking"
    failure_stage = FailureStage.POLICY

    def __init__(self) -> None:
        self.held = 0

    def run(self, invocation):
        self.held += 1
        invocation.on_settle(self.release)

    def release(self):
        self.held -= 1


@pytest.mark.parametrize("refuses", [False, True])
async def test_what_a_stage_took_is_given_back(refuses):
    """Settle callbacks run: an explanation leaves nothing held."""
    stage = Locking()
    pipeline = Pipeline.default().before("policy", stage)
    lab = Lab(judge(deny() if refuses else allow()), pipeline=pipeline).add()
    await lab.explain()
    assert stage.held == 0


async def test_custom_stages_are_explained_too():
    """They stand in the list under their own name."""

    class Closed(Stage):
        name = "opening-hours"
        failure_stage = FailureStage.POLICY

        def run(self, invocation):
            raise RuntimeError("canary")

    lab = Lab(pipeline=Pipeline.default().before("policy", Closed())).add()
    explanation = await lab.explain()
    assert explanation.verdict == "refused"
    assert explanation.stages[-1][:2] == ("opening-hours", "refused")
    assert "canary" not in str(explanation)


async def test_the_gate_is_tried_without_asking():
    """What could not be stored is told before anybody would be asked."""
    actor = Actor("u_dana", attributes={"session": object()})
    explanation = await Lab().add(approval=ApprovalRule()).explain(actor=actor)
    assert explanation.stages[-1] == ("approval", "refused", "APPROVAL_UNSERIALIZABLE_INPUT")


@pytest.mark.parametrize("phases", [(), ("discovery",)])
async def test_dependencies_that_cannot_be_made_refuse(phases):
    """A factory that fails is told as a refusal, not as a call that would execute."""

    def factory(invocation):
        raise ConnectionError("canary")

    rules = [judge(allow(), *phases)] if phases else []
    explanation = await Lab(*rules, deps=factory).add().explain()
    assert explanation.verdict == "refused"
    assert "canary" not in str(explanation)


async def test_a_view_explains_its_own_surface():
    """The surface is fixed there too."""
    lab = Lab().add(expose={"test"})
    explanation = await lab.engine.on("test").explain("act", actor=DANA)
    assert explanation.verdict == "would-execute"
    assert (await lab.explain()).stages[-1][2] == "not-exposed"


async def test_programming_errors_are_raised():
    """As for a call: TypeError at once."""
    with pytest.raises(TypeError):
        await Lab().add().explain(id=7)


async def test_a_cancelled_explanation_is_cancelled():
    """The caller's own cancellation goes on; nothing is told."""

    async def hang(request):
        scope.cancel()
        await anyio.sleep_forever()

    lab = Lab(policy("judge")(hang)).add()
    with anyio.CancelScope() as scope:
        await lab.explain()
    assert scope.cancelled_caught
    assert lab.audit.events == []
