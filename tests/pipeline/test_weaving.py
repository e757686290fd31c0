"""The woven function of a plan does what its steps do one by one, and can be read."""

from __future__ import annotations

import linecache
import traceback
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from capgate import (
    Actor,
    ApprovalRule,
    CapabilityError,
    Context,
    Pipeline,
    Redact,
    Retry,
    Stage,
    allow,
    deny,
    hide,
    policy,
    require_approval,
)
from capgate.audit import AuditConfig, MemoryAudit
from capgate.call import USUAL, outcome_of
from capgate.pipeline.weaving import Piece, weave

DANA = Actor("u_dana")
VARYING = {"duration_ms", "approval_id", "expires_at"}


def says(name, answer, phase="invocation"):
    """A policy that gives `answer`, or raises it."""

    @policy(name, phases={phase})
    def rule(request):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return rule


def later(name, answer):
    """A policy that gives `answer` after a pause."""

    @policy(name)
    async def rule(request):
        await anyio.lowlevel.checkpoint()
        return answer

    return rule


class Custom(Stage):
    """A stage that may fail, or leave something to do."""

    name = "custom"

    def __init__(self, error=None) -> None:
        self.error = error

    def run(self, invocation):
        invocation.on_settle(lambda: None)
        if self.error is not None:
            raise self.error


class Later(Custom):
    async def run(self, invocation):
        Custom.run(self, invocation)


async def returns(n: int = 1) -> int:
    return n


async def pauses(n: int = 1) -> int:
    await anyio.lowlevel.checkpoint()
    return n


async def fails(n: int = 1) -> int:
    raise ValueError(n)


async def lies(n: int = 1) -> int:
    return "text"


async def stops(n: int = 1) -> int:
    raise anyio.get_cancelled_exc_class()


async def asks(ctx: Context, n: int = 1) -> int:
    return n + len(ctx.capability_id)


async def outlasts(n: int = 1) -> int:
    await anyio.sleep_forever()
    return n


async def passes(given: Any) -> Any:
    return given


async def slips(n: int = 1) -> Any:
    return object()


def blocks(n: int = 1) -> int:
    return n


class Deaf(MemoryAudit):
    """A sink that fails at every event, having kept it."""

    def __call__(self, event):
        MemoryAudit.__call__(self, event)
        raise OSError


class Slow(MemoryAudit):
    """A sink that turns out to be async."""

    def __call__(self, event):
        return self.keep(event)

    async def keep(self, event):
        MemoryAudit.__call__(self, event)


class Strange(MemoryAudit):
    """A sink that returns something."""

    def __call__(self, event):
        MemoryAudit.__call__(self, event)
        return 1


# A situation: settings of the engine, the handler, its declaration, the claim.
SITUATIONS = {
    "nothing but a handler": ({}, returns, {}, {}),
    "no sink": ({"audit": None}, returns, {}, {}),
    "a handler that suspends": ({}, pauses, {}, {}),
    "a handler that fails": ({}, fails, {}, {}),
    "a handler that makes a cancellation up": ({}, stops, {}, {}),
    "a handler that breaks its contract": ({}, lies, {}, {}),
    "a handler with its context": ({}, asks, {}, {}),
    "a handler in a thread": ({}, blocks, {}, {}),
    "a handler that outlasts its time": ({}, outlasts, {"timeout": 0.001}, {}),
    "redacted": ({}, returns, {"redact": Redact(output=lambda n: 0)}, {}),
    "tried again": ({}, fails, {"retry": Retry(attempts=2), "idempotent": True}, {}),
    "one at a time": ({}, returns, {"max_concurrency": 1}, {}),
    "a contract that takes a second look": ({}, passes, {}, {"input": {"given": [{"a": 1}]}}),
    "an input without a form": ({}, passes, {}, {"input": {"given": object()}}),
    "an output without a form": ({}, slips, {}, {}),
    "no input at all": ({}, returns, {}, {"input": None}),
    "a wrong input": ({}, returns, {}, {"input": {"n": "x"}}),
    "a wrong input from nobody": ({}, returns, {}, {"input": {"n": "x"}, "actor": None}),
    "nobody": ({}, returns, {}, {"actor": None}),
    "anonymous": ({}, returns, {}, {"actor": Actor.anonymous()}),
    "public": ({}, returns, {"access": "public"}, {"actor": None}),
    "no actor at all": ({}, returns, {}, {"actor": "u_dana"}),
    "an access rule": ({}, returns, {"access": lambda request: False}, {}),
    "unknown": ({}, returns, {}, {"id": "other"}),
    "not exposed": ({}, returns, {"expose": {"test"}}, {}),
    "allowed": ({"policies": [says("a", allow()), says("b", allow(x=1))]}, returns, {}, {}),
    "denied": ({"policies": [says("a", deny("No.")), says("b", allow())]}, returns, {}, {}),
    "denied at last": ({"policies": [says("a", allow()), says("b", deny())]}, returns, {}, {}),
    "hidden": ({"policies": [says("a", hide())]}, returns, {}, {}),
    "hidden at discovery": ({"policies": [says("a", hide(), "discovery")]}, returns, {}, {}),
    "denied at execution": ({"policies": [says("a", deny(), "execution")]}, returns, {}, {}),
    "a broken policy": ({"policies": [says("a", KeyError()), says("b", deny())]}, returns, {}, {}),
    "no decision": ({"policies": [says("a", 7)]}, returns, {}, {}),
    "allowed later": ({"policies": [later("a", allow()), says("b", allow())]}, returns, {}, {}),
    "denied later": ({"policies": [says("b", allow()), later("a", deny())]}, returns, {}, {}),
    "to be approved": ({"policies": [says("a", require_approval("Ask."))]}, returns, {}, {}),
    "always to be approved": ({}, returns, {"approval": ApprovalRule(reason="Ask.")}, {}),
    "hashed": ({"audit": lambda sink: AuditConfig([sink], hash_inputs=True)}, returns, {}, {}),
    "strict": ({"audit": lambda sink: AuditConfig([sink], strict=True)}, returns, {}, {}),
    "a custom stage": ({"pipeline": ("policy", Custom())}, returns, {}, {}),
    "a custom stage that waits": ({"pipeline": ("policy", Later())}, returns, {}, {}),
    "a custom stage that fails": ({"pipeline": ("policy", Later(KeyError()))}, returns, {}, {}),
    "a custom stage at the end": ({"pipeline": ("output-validation", Custom())}, returns, {}, {}),
    "it fails": ({"pipeline": ("output-validation", Custom(KeyError()))}, returns, {}, {}),
    "a sink that fails": ({"audit": Deaf}, returns, {}, {}),
    "a sink that turns out async": ({"audit": Slow}, returns, {}, {}),
    "a sink that returns something": ({"audit": Strange}, returns, {}, {}),
    "two sinks": ({"audit": lambda sink: AuditConfig([sink, Deaf()])}, returns, {}, {}),
    "a sink, and a refusal": ({"audit": Deaf, "policies": [says("a", deny())]}, returns, {}, {}),
}


def built(world, settings, handler, fields):
    """A world for a situation, and where its events are."""
    made = settings.get("audit", MemoryAudit)
    sink = made() if isinstance(made, type) else MemoryAudit()
    audit = sink if isinstance(made, type) else made and made(sink)
    given = {**settings, "audit": audit}
    if "pipeline" in settings:
        given["pipeline"] = Pipeline.default().after(*settings["pipeline"])
    return world(**given).add("act", handler, **fields), sink


def kind(error):
    """What an exception is; its text may hold an address."""
    return type(error).__name__


def shown(outcome):
    """An outcome as plain data, without its ids."""
    error = getattr(outcome, "error", None)
    failed = error and (error.code, error.public_message, error.stage, error.retryable)
    how = (getattr(outcome, name, None) for name in ("output", "attempts", "late", "replayed"))
    cause = error and (kind(error.__cause__), kind(error.__context__), error.details, error.reason)
    return outcome.status, outcome.effect, failed, cause, *how


def told(event):
    """An event as plain data, without its ids and times."""
    data = {key: value for key, value in event.data.items() if key not in VARYING}
    ids = event.execution_id == event.correlation_id, event.parent_execution_id
    return event.type, event.surface, event.actor, event.capability_id, event.input_hash, ids, data


async def ended(world, situation, *, woven):
    """How two calls end, by the woven function or step by step, and what was told of them."""
    settings, handler, fields, claim = situation
    made, sink = built(world, settings, handler, fields)
    caller = made.engine._caller
    claimed = (claim.get("input"), claim.get("actor", DANA), None)
    outcomes = []
    for _ in range(2):
        id_, plan = caller._plan(claim.get("id", "act"), "direct")
        call = caller.begin(id_, plan, "direct", claimed, USUAL)
        run = plan.carry if woven else plan.carry_guarded
        outcomes.append(shown(await run(call, outcome_of)))
    reported = [(error.code, kind(error.__cause__)) for error in made.reported]
    assert not made.engine._live.calls()
    return outcomes, [told(event) for event in sink.events], reported


@pytest.mark.parametrize("name", SITUATIONS)
async def test_woven_or_step_by_step_a_call_ends_the_same(world, name):
    """One outcome, the same events and the same reports, whichever way the steps are run."""
    situation = SITUATIONS[name]
    woven = await ended(world, situation, woven=True)
    assert woven == await ended(world, situation, woven=False)
    assert len(woven[0]) == 2


@pytest.mark.parametrize("name", SITUATIONS)
async def test_what_invoke_gives_is_what_the_outcome_holds(world, name):
    """`invoke` returns the output of the same outcome, or raises its error."""
    settings, handler, fields, claim = SITUATIONS[name]
    made, _ = built(world, settings, handler, fields)
    given = claim.get("id", "act"), claim.get("input")
    actor = claim.get("actor", DANA)
    outcome = await made.engine.attempt(*given, actor=actor)
    try:
        output, code = await made.engine.invoke(*given, actor=actor), None
    except CapabilityError as error:
        output, code = None, error.code
    assert output == getattr(outcome, "output", None)
    asked = "APPROVAL_REQUIRED" if outcome.status == "approval-required" else None
    assert code == (asked or getattr(getattr(outcome, "error", None), "code", None))


async def test_plans_of_one_kind_share_their_code(world):
    """A text is compiled once: two capabilities of one shape run the same code."""
    made = world().add("a").add("b").add("c", access="public")
    for id_ in "abc":
        await made.call(id=id_)
    a, b, c = (made.engine._caller._plan(id_, "direct")[1] for id_ in "abc")
    assert a.carry is not b.carry
    assert a.carry.__code__ is b.carry.__code__ is not c.carry.__code__


async def test_a_traceback_shows_the_woven_lines(world):
    """What breaks on the way shows the line of the plan it came through."""
    made = world(policies=[says("a", SystemExit())]).add()
    with pytest.raises(SystemExit) as caught:
        await made.call()
    lines = "".join(traceback.format_exception(caught.value))
    assert 'File "<capgate plan ' in lines
    assert "answer = evaluate(request)" in lines
    linecache.checkcache()
    assert "".join(traceback.format_exception(caught.value)) == lines


def test_a_piece_cannot_take_a_name_away():
    """Lines that assign to a name that another piece brings are refused, not woven."""
    with pytest.raises(LookupError, match="done"):
        weave(Piece("done = 1\n", {}), (), Piece("call.effect = done\n", {"done": 2}), set())


def test_pieces_agree_on_what_their_names_stand_for(world):
    """A name that two pieces of a plan bring stands for the same thing in both."""
    made = world(policies=[says("a", allow())]).add(handler=asks)
    _, plan = made.engine._caller._plan("act", "direct")
    known = {}
    for step in plan._fresh + plan._after:
        for name, value in step.piece().names.items() if step.piece else ():
            assert known.setdefault(name, value) == value
    assert {"judge_input", "handler", "judge_output"} <= known.keys()
