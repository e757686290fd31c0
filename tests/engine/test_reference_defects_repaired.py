"""Defects of the reference systems, shown repaired through a whole engine; see the docs' table."""

from __future__ import annotations

import math

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalRule,
    AuditConfig,
    CancelToken,
    CapabilityError,
    ConfigurationError,
    Context,
    Engine,
    ErrorCode,
    Limits,
    Redact,
    canonical_json,
    policy,
    public_error,
)
from capgate.audit import MemoryAudit

DANA, LEE = Actor("u_dana"), Actor("u_lee")


def build(**settings):
    """An engine that notes its events and keeps quiet about private causes."""
    settings.setdefault("audit", MemoryAudit())
    return Engine("test", on_internal_error=lambda _: None, **settings)


def add(engine, handler, **fields):
    """Declare `handler` as the capability `cap`."""
    return engine.capability("cap", description="A capability.", **fields)(handler)


async def one() -> int:
    return 1


def failing_on(kind):
    """Make a sink that raises on events of one type."""

    def sink(event):
        if event.type == kind:
            raise OSError("canary")

    return sink


async def test_what_observes_a_call_cannot_end_it():
    """A sink that raises as the handler starts changes nothing (reference A 27)."""
    kept = MemoryAudit()
    engine = build(audit=[failing_on("capability.started"), kept])
    add(engine, one)
    assert (await engine.attempt("cap", actor=DANA)).status == "completed"
    assert kept.events[-1].type == "capability.completed"


@pytest.mark.parametrize("value", [[1, ..., 3], {1: "one"}])
def test_what_is_not_json_has_no_canonical_form(value):
    """A hole and a key that is no text are refused, never dropped (reference A 95, 96)."""
    with pytest.raises(ValueError, match=r"\S"):
        canonical_json(value)


@pytest.mark.parametrize("value", [[1, ..., 3], {1: "one"}])
async def test_what_is_not_json_is_never_gated(value):
    """A gated call with such a value is invalid input; nothing is asked (reference A 95, 96)."""
    engine = build()
    schema = {"type": "object", "properties": {"x": {}}, "required": ["x"]}

    async def cap(x) -> int:
        return 1

    add(engine, cap, input_schema=schema, approval=ApprovalRule())
    outcome = await engine.attempt("cap", {"x": value}, actor=DANA)
    assert outcome.error.code is ErrorCode.INPUT_INVALID
    assert await engine.approvals.find() == []


async def test_a_requester_cannot_spoil_the_request():
    """Their own approval is refused when deciding; another's still counts (reference A 106)."""
    engine = build()
    add(engine, one, approval=ApprovalRule())
    asked = (await engine.attempt("cap", actor=DANA)).approval
    with pytest.raises(CapabilityError) as refused:
        await engine.approvals.approve(asked.id, by=DANA)
    assert refused.value.code is ErrorCode.APPROVAL_SELF_APPROVAL
    await engine.approvals.approve(asked.id, by=LEE)
    assert await engine.resume(asked.id) == 1


@pytest.mark.parametrize("code", [code for code in ErrorCode if code != "EXECUTION_FAILED"])
async def test_a_handler_cannot_speak_for_the_engine(code):
    """Whatever code a handler raises, the call failed in its execution (reference A 155)."""
    engine = build()

    async def cap() -> int:
        raise CapabilityError(code, "canary", exposed=True)

    add(engine, cap)
    outcome = await engine.attempt("cap", actor=DANA)
    assert (outcome.status, outcome.error.code) == ("failed", ErrorCode.EXECUTION_FAILED)
    assert public_error(outcome.error)["code"] == "INTERNAL_ERROR"


@pytest.mark.parametrize("nested_input", [{"n": "canary"}, {"n": 13}])
async def test_a_nested_failure_is_not_the_callers(nested_input):
    """Bad input and bad output of a nested call stay inside (reference A 156)."""
    engine = build()

    @engine.capability("inner")
    async def inner(n: int) -> int:
        """Break the contract for 13."""
        return "canary" if n == 13 else n

    async def cap(ctx: Context) -> int:
        return await ctx.invoke(inner, nested_input)

    add(engine, cap)
    outcome = await engine.attempt("cap", actor=DANA)
    assert outcome.error.code is ErrorCode.EXECUTION_FAILED
    assert "details" not in public_error(outcome.error)


async def test_dependencies_arrive_as_they_are():
    """The very object, its methods and its own names included (reference A 157)."""

    class Deps:
        agent = "mine"

        def method(self):
            return self

    deps, seen = Deps(), []
    engine = build(deps_type=Deps, deps=deps)

    async def cap(ctx: Context[Deps]) -> None:
        seen.append((ctx.deps.method(), ctx.deps.agent))

    add(engine, cap)
    await engine.invoke("cap", actor=DANA)
    assert seen == [(deps, "mine")]


async def test_a_call_cancelled_before_it_starts_runs_nothing():
    """The handler is not entered, then or later (reference A 174)."""
    engine, ran, token = build(), [], CancelToken()
    token.cancel()

    async def cap() -> None:
        ran.append(True)

    add(engine, cap)
    outcome = await engine.attempt("cap", actor=DANA, cancel=token)
    await anyio.wait_all_tasks_blocked()
    assert (outcome.error.code, ran) == (ErrorCode.CANCELLED, [])


async def test_a_timeout_always_ends_the_call():
    """A handler that hangs gives an outcome and a terminal event (reference A 177)."""
    kept = MemoryAudit()
    engine = build(audit=kept)
    add(engine, anyio.sleep_forever, output_schema={"type": "null"}, timeout=0.001)
    outcome = await engine.attempt("cap", actor=DANA)
    assert outcome.error.code is ErrorCode.TIMEOUT
    assert kept.events[-1].type == "capability.cancelled"


@pytest.mark.parametrize("seconds", [3e6, 1e12])
async def test_a_long_timeout_does_not_fire_at_once(seconds):
    """Beyond 32 bits of milliseconds a timeout is only long (reference A 178)."""
    engine = build()

    async def cap() -> int:
        await anyio.lowlevel.checkpoint()
        return 1

    add(engine, cap, timeout=seconds)
    assert await engine.invoke("cap", actor=DANA, timeout=seconds) == 1


async def test_an_async_redactor_is_awaited():
    """The caller gets what it returns, validated (reference A 184)."""
    engine = build()

    async def hide_all(_) -> int:
        await anyio.lowlevel.checkpoint()
        return 0

    add(engine, one, redact=Redact(output=hide_all))
    assert await engine.invoke("cap", actor=DANA) == 0


def test_strict_audit_needs_a_sink():
    """It is refused when the engine is made (reference A 206)."""
    with pytest.raises(ConfigurationError):
        Engine("test", audit=AuditConfig([], strict=True))


async def test_a_raising_strict_sink_does_not_starve_the_next():
    """The second sink gets `started`, though the first raised on it (reference A 207)."""
    kept = MemoryAudit()
    engine = build(audit=AuditConfig([failing_on("capability.started"), kept], strict=True))
    add(engine, one)
    outcome = await engine.attempt("cap", actor=DANA)
    assert outcome.error.code is ErrorCode.AUDIT_UNAVAILABLE
    assert len(kept.of_type("capability.started")) == 1


async def test_a_strict_sink_that_hangs_is_given_up():
    """The call ends, and its handler did not start (reference A 208)."""

    async def hanging(event):
        await anyio.sleep_forever()

    engine = build(audit=AuditConfig(hanging, strict=True), limits=Limits(audit_timeout=0.001))
    add(engine, one)
    outcome = await engine.attempt("cap", actor=DANA)
    assert (outcome.error.code, outcome.effect) == (ErrorCode.AUDIT_UNAVAILABLE, "none")


@pytest.mark.parametrize("concurrency", [math.nan, 0, -1, True])
def test_a_concurrency_that_is_no_count_is_refused(concurrency):
    """It cannot empty the catalogue silently (reference A 253)."""
    with pytest.raises(ConfigurationError, match="policy_concurrency"):
        Limits(policy_concurrency=concurrency)


async def test_a_schema_that_cannot_be_made_is_one_capabilitys_problem():
    """It is refused at its decorator; the catalogue stays whole (reference A 257)."""
    engine = build()

    async def broken(x: Engine) -> int:
        return 1

    add(engine, one)
    with pytest.raises(ConfigurationError, match="'x'"):
        engine.capability("broken", description="Broken.")(broken)
    assert [each.id for each in await engine.discover("direct", actor=DANA)] == ["cap"]


async def test_a_broken_discovery_policy_leaves_a_trace():
    """The event names the capability that was left out, and the policy (reference A 258)."""
    kept = MemoryAudit()
    engine = build(audit=kept)

    @policy("fragile", phases={"discovery"})
    def fragile(request):
        raise OSError("canary")

    add(engine, one, policies=[fragile])
    assert await engine.discover("direct", actor=DANA) == []
    (event,) = kept.of_type("capabilities.discovered")
    assert event.to_dict()["data"]["errors"] == [{"capability": "cap", "policy": "fragile"}]
