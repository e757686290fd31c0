"""Custom stages: how they run, what they see, and how they refuse."""

from __future__ import annotations

import anyio
import pytest
import structlog.testing

from capgate import (
    Actor,
    CapabilityError,
    Completed,
    Engine,
    Failed,
    FailureStage,
    Limits,
    Pipeline,
    Skip,
    Stage,
    Step,
    public_error,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
GENERIC = {"code": "INTERNAL_ERROR", "message": "The operation failed.", "retryable": False}


class Calling(Stage):
    """Calls a function, sync or async, with the invocation."""

    def __init__(self, function, name="own", failure_stage=FailureStage.POLICY):
        self.function = function
        self.name = name
        self.failure_stage = failure_stage

    def run(self, invocation):
        return self.function(invocation)


def world(*stages, anchor="policy", verb="before", **settings):
    """Build an engine with custom stages and the capability `cap`, which notes its runs."""
    pipeline = Pipeline.default()
    for stage in stages:
        pipeline = getattr(pipeline, verb)(anchor, stage)
    audit, ran = MemoryAudit(), []
    settings = {"audit": audit, "on_internal_error": lambda _: None, **settings}
    engine = Engine("test", pipeline=pipeline, **settings)

    @engine.capability("cap")
    async def cap(n: int = 1) -> int:
        """Give back."""
        ran.append(n)
        return n

    return engine, audit, ran


def raising(error):
    def function(invocation):
        raise error

    return function


def raising_async(error):
    async def function(invocation):
        await anyio.lowlevel.checkpoint()
        raise error

    return function


async def stray():
    """Return a cancellation that was delivered to somebody else."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            return cancelled


async def test_sync_and_async_stages_run_in_their_places():
    """Stages run in pipeline order, plain functions and coroutines alike, then the handler."""
    order = []

    async def later(invocation):
        await anyio.lowlevel.checkpoint()
        order.append("async")

    engine, _, ran = world(
        Calling(lambda invocation: order.append("sync"), "a"), Calling(later, "b")
    )
    assert await engine.invoke("cap", {"n": 7}, actor=DANA) == 7
    assert (order, ran) == (["sync", "async"], [7])


CODES = [
    ("policy", "POLICY_FAILED"),
    ("authorization", "FORBIDDEN"),
    *[
        (stage.value, "INTERNAL_ERROR")
        for stage in FailureStage
        if stage.value not in {"policy", "authorization"}
    ],
]


@pytest.mark.parametrize("raises", [raising, raising_async])
@pytest.mark.parametrize(("stage", "code"), CODES)
async def test_a_foreign_exception_fails_closed(stage, code, raises):
    """What a stage raises of its own becomes its failure stage's fail-closed code, not exposed."""
    cause = ValueError("secret")
    engine, _, ran = world(Calling(raises(cause), failure_stage=FailureStage(stage)))
    outcome = await engine.attempt("cap", actor=DANA)
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.stage) == (code, stage)
    assert outcome.error.__cause__ is cause
    assert (outcome.effect, ran) == ("none", [])
    assert public_error(outcome.error) == GENERIC


@pytest.mark.parametrize("raises", [raising, raising_async])
@pytest.mark.parametrize("stage", ["policy", "authorization", "execution"])
async def test_a_stray_cancellation_of_a_stage_fails_closed(stage, raises):
    """A cancellation that nobody asked for is a foreign exception of the stage."""
    engine, _, ran = world(Calling(raises(await stray()), failure_stage=FailureStage(stage)))
    outcome = await engine.attempt("cap", actor=DANA)
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, outcome.error.stage) == (dict(CODES)[stage], stage)
    assert ran == []


@pytest.mark.parametrize("raises", [raising, raising_async])
async def test_a_capability_error_of_a_stage_is_kept(raises):
    """A stage's own CapabilityError is the failure: code, message, flags and details."""
    said = CapabilityError("POLICY_DENIED", "Closed.", retryable=True, reason="hours")
    engine, _, ran = world(Calling(raises(said)))
    outcome = await engine.attempt("cap", actor=DANA)
    error = outcome.error
    assert public_error(error) == {"code": "POLICY_DENIED", "message": "Closed.", "retryable": True}
    assert (error.stage, error.reason, error.execution_id) == (
        "policy",
        "hours",
        outcome.execution_id,
    )
    assert (ran, outcome.effect) == ([], "none")
    assert said.execution_id is None


async def test_a_failure_in_a_task_group_of_a_stage_is_read():
    """A group with one leaf that a stage raises is that leaf."""

    async def judge(invocation):
        async with anyio.create_task_group() as group:
            group.start_soon(raising_async(CapabilityError("POLICY_DENIED", "Closed.")), None)

    engine, _, ran = world(Calling(judge))
    outcome = await engine.attempt("cap", actor=DANA)
    assert (outcome.error.code, outcome.error.public_message) == ("POLICY_DENIED", "Closed.")
    assert ran == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("POLICY_DENIED", "policy-denied"),
        ("FORBIDDEN", "forbidden"),
        ("UNAUTHENTICATED", "unauthenticated"),
        ("RATE_LIMITED", "rate-limited"),
    ],
)
async def test_a_refusal_of_a_stage_is_a_denial(code, reason):
    """A stage that refuses before the handler leaves `capability.denied` with its reason."""
    engine, audit, _ = world(Calling(raising(CapabilityError(code))))
    await engine.attempt("cap", actor=DANA)
    last = audit.events[-1]
    assert last.type == "capability.denied"
    assert (last.data["reason"], last.data["public_code"]) == (reason, code)


async def test_a_nested_failure_in_a_stage_is_not_the_callers():
    """The error of another execution that a stage lets escape is foreign: nothing of it shows."""

    async def ask(invocation):
        await invocation.deps.invoke("cap", {"n": "x"}, actor=DANA)

    engine, _, _ = world(anchor="policy")
    outer, _, ran = world(Calling(ask), deps=engine)
    outcome = await outer.attempt("cap", actor=DANA)
    assert (outcome.error.code, outcome.error.details, ran) == ("POLICY_FAILED", None, [])
    assert outcome.error.__cause__.code == "INPUT_INVALID"


@pytest.mark.parametrize("raises", [raising, raising_async])
@pytest.mark.parametrize("error", [ValueError("secret"), CapabilityError("POLICY_DENIED", "No.")])
async def test_a_stage_after_execution_withholds_the_output(error, raises):
    """A stage that fails behind the handler: Failed, effect done, output withheld."""
    engine, audit, ran = world(Calling(raises(error)), anchor="output-validation", verb="after")
    outcome = await engine.attempt("cap", {"n": 5}, actor=DANA)
    assert isinstance(outcome, Failed)
    assert (outcome.effect, outcome.error.effect, ran) == ("done", "done", [5])
    last = audit.events[-1]
    assert (last.type, last.data["effect"]) == ("capability.failed", "done")
    assert last.data["executed_before_failure"] is True


async def test_a_hanging_stage_is_bounded():
    """An async stage that does not answer in time fails closed (SI-12)."""

    async def hang(invocation):
        await anyio.sleep_forever()

    engine, _, ran = world(Calling(hang), limits=Limits(policy_timeout=0.001))
    outcome = await engine.attempt("cap", actor=DANA)
    assert (outcome.error.code, outcome.error.stage, ran) == ("POLICY_FAILED", "policy", [])


@pytest.mark.parametrize("answer", [True, False, 0, "no", {"n": 2}])
async def test_what_a_stage_returns_changes_nothing(answer):
    """A stage refuses by raising only: what it returns neither refuses nor rewrites."""
    engine, _, ran = world(Calling(lambda invocation: answer))
    outcome = await engine.attempt("cap", actor=DANA)
    assert isinstance(outcome, Completed | Failed)
    assert ran in ([1], [])
    assert outcome.status == ("completed" if ran else "failed")


async def test_a_step_of_bind_is_made_once_per_capability():
    """`bind` is asked once for each capability, and its step runs at every call."""
    bound, seen = [], []

    class Binding(Stage):
        name = "binding"

        def bind(self, capability):
            bound.append(capability.id)
            if capability.id == "free":
                return Skip("nothing to do")
            return Step(lambda invocation: seen.append(invocation.capability.id), "counts")

    engine, _, _ = world(Binding())

    @engine.capability("free")
    async def free() -> None:
        """Do nothing."""

    for _ in range(2):
        await engine.invoke("cap", actor=DANA)
        await engine.invoke("free", actor=DANA)
    assert (bound, seen) == (["cap", "free"], ["cap", "cap"])
    details = {line["stage"]: line for line in engine.describe("free").plan}
    assert (details["binding"]["runs"], details["binding"]["detail"]) == (False, "nothing to do")


@pytest.mark.parametrize("junk", [None, 3, "step", lambda invocation: None, Step, Skip])
def test_a_bind_that_answers_junk_is_refused_at_once(junk):
    """`bind` must return a `Step` or a `Skip`: anything else fails at registration, naming it."""

    class Junk(Stage):
        name = "junk"

        def bind(self, capability):
            return junk

    with pytest.raises(TypeError, match="junk"):
        world(Junk())


@pytest.mark.parametrize("said", [None, 7, ["slow"], b"slow"])
@pytest.mark.parametrize("kind", ["step", "skip"])
def test_what_a_bind_says_is_text(kind, said):
    """A detail or a reason that is no str is refused at registration, by the stage's name."""

    class Odd(Stage):
        name = "odd"

        def bind(self, capability):
            return Skip(said) if kind == "skip" else Step(lambda _: None, said)

    with pytest.raises(TypeError, match=r"'odd'.*must be a str"):
        world(Odd())


def test_a_stage_with_neither_run_nor_bind_is_refused_at_once():
    """A stage that does nothing is a mistake that shows at registration, not at a call."""

    class Empty(Stage):
        name = "empty"

    with pytest.raises((TypeError, NotImplementedError), match=r"Empty|empty"):
        world(Empty())


async def test_a_logger_of_a_stage_is_bound_to_the_call():
    """`invocation.logger` carries the ids and the surface of the call."""
    engine, _, _ = world(Calling(lambda invocation: invocation.logger.info("looked")))
    with structlog.testing.capture_logs() as logs:
        outcome = await engine.attempt("cap", actor=DANA, correlation_id="cor_1")
    assert [entry for entry in logs if entry["event"] == "looked"] == [
        {
            "event": "looked",
            "log_level": "info",
            "execution_id": outcome.execution_id,
            "capability_id": "cap",
            "surface": "direct",
            "correlation_id": "cor_1",
        }
    ]
