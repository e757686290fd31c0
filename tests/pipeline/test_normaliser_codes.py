"""Codes of a call itself, produced end to end: flags, effect, category and terminal event."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    AuditConfig,
    CancelToken,
    Engine,
    FailureStage,
    Limits,
    Pipeline,
    Stage,
    deny,
    hide,
    policy,
    public_error,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
GENERIC = {"code": "INTERNAL_ERROR", "message": "The operation failed.", "retryable": False}


class Broken(Stage):
    name = "broken"
    failure_stage = FailureStage.INPUT_VALIDATION

    def run(self, invocation):
        raise ValueError("secret")


@policy("hides", phases={"discovery"})
def hides(request):
    return hide()


@policy("denies")
def denies(request):
    return deny("Not today.", reason="weekday")


@policy("breaks")
def breaks(request):
    raise ValueError("secret")


def broken_sink(event):
    raise OSError("secret")


async def give() -> int:
    """Give a number."""
    return 1


async def take(n: int) -> int:
    """Give a number back."""
    return n


async def lie() -> int:
    """Give what is no number."""
    return "secret"


async def fail() -> int:
    """Fail."""
    raise ValueError("secret")


async def wait() -> int:
    """Wait."""
    await anyio.sleep_forever()


def world(handler=give, fields=None, **settings):
    """Build an engine with the capability `cap`, and its audit."""
    audit = MemoryAudit()
    settings = {"audit": audit, "on_internal_error": lambda _: None, **settings}
    engine = Engine("test", **settings)
    engine.capability("cap", **fields or {})(handler)
    return engine, audit


async def call(handler=give, fields=None, *, id="cap", actor=DANA, options=None, **settings):
    """Make one call."""
    engine, audit = world(handler, fields, **settings)
    outcome = await engine.attempt(id, {}, actor=actor, **options or {})
    return outcome, audit.events


async def cancelled():
    token = CancelToken()
    token.cancel()
    return await call(options={"cancel": token})


async def strictly():
    audit = MemoryAudit()
    outcome, _ = await call(audit=AuditConfig([broken_sink, audit], strict=True))
    return outcome, audit.events


async def broken_stage():
    pipeline = Pipeline.default().after("input-validation", Broken())
    return await call(pipeline=pipeline)


async def conflicting():
    engine, audit = world(take)
    await engine.invoke("cap", {"n": 1}, actor=DANA, idempotency_key="k")
    outcome = await engine.attempt("cap", {"n": 2}, actor=DANA, idempotency_key="k")
    return outcome, audit.events


async def still_running(key, **limits):
    """Call again while a first call holds the place or the key."""
    engine, audit = world(wait, {"max_concurrency": 1}, limits=Limits(max_queue=0))
    options = {"actor": DANA, "idempotency_key": key}
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: engine.attempt("cap", {}, **options))
        await anyio.wait_all_tasks_blocked()
        outcome = await engine.attempt("cap", {}, **options)
        events = audit.events
        group.cancel_scope.cancel()
    return outcome, events


# scenario -> code and stage; retryable and exposed; effect; category; event and its reason
CASES = [
    (
        lambda: call(id="nope"),
        "CAPABILITY_NOT_FOUND discovery",
        (False, True),
        "none CAPABILITY_NOT_FOUND denied unknown",
    ),
    (
        lambda: call(options={"surface": "mcp"}),
        "CAPABILITY_NOT_FOUND discovery",
        (False, True),
        "none CAPABILITY_NOT_FOUND denied not-exposed",
    ),
    (
        lambda: call(policies=[hides]),
        "CAPABILITY_NOT_FOUND policy",
        (False, True),
        "none CAPABILITY_NOT_FOUND denied hidden",
    ),
    (
        lambda: call(take),
        "INPUT_INVALID input-validation",
        (False, True),
        "none INPUT_INVALID failed",
    ),
    (
        lambda: call(actor=None),
        "UNAUTHENTICATED authentication",
        (False, True),
        "none UNAUTHENTICATED denied unauthenticated",
    ),
    (
        lambda: call(fields={"access": lambda request: False}),
        "FORBIDDEN authorization",
        (False, True),
        "none FORBIDDEN denied forbidden",
    ),
    (
        lambda: call(policies=[denies]),
        "POLICY_DENIED policy",
        (False, True),
        "none FORBIDDEN denied policy-denied",
    ),
    (
        lambda: call(policies=[breaks]),
        "POLICY_FAILED policy",
        (False, False),
        "none EXECUTION_FAILED denied policy-failed",
    ),
    (
        lambda: still_running(None),
        "RATE_LIMITED policy",
        (True, True),
        "none FORBIDDEN denied rate-limited",
    ),
    (
        lambda: still_running("k"),
        "IDEMPOTENCY_CONFLICT policy",
        (True, True),
        "none INPUT_INVALID failed",
    ),
    (
        conflicting,
        "IDEMPOTENCY_CONFLICT policy",
        (False, True),
        "none INPUT_INVALID failed",
    ),
    (
        strictly,
        "AUDIT_UNAVAILABLE execution",
        (True, False),
        "none EXECUTION_FAILED failed",
    ),
    (
        lambda: call(fail),
        "EXECUTION_FAILED execution",
        (False, False),
        "unknown EXECUTION_FAILED failed",
    ),
    (
        lambda: call(lie),
        "OUTPUT_INVALID output-validation",
        (False, False),
        "done OUTPUT_INVALID failed",
    ),
    (
        lambda: call(wait, options={"timeout": 0.05}),
        "TIMEOUT timeout",
        (True, True),
        "unknown CANCELLED cancelled",
    ),
    (
        lambda: call(wait, {"timeout": 0.05}),
        "TIMEOUT timeout",
        (True, True),
        "unknown CANCELLED cancelled",
    ),
    (
        cancelled,
        "CANCELLED cancellation",
        (False, True),
        "none CANCELLED cancelled",
    ),
    (
        broken_stage,
        "INTERNAL_ERROR input-validation",
        (False, False),
        "none EXECUTION_FAILED failed",
    ),
]


NAMES = [f"{where.split()[0]}-{how.split()[-1]}" for _, where, _, how in CASES]


@pytest.mark.parametrize(("scenario", "where", "flags", "how"), CASES, ids=NAMES)
async def test_each_code_has_its_facts(scenario, where, flags, how):
    """A code comes with its stage, flags, effect and category, and its terminal event."""
    outcome, events = await scenario()
    error, last = outcome.error, events[-1]
    assert f"{error.code} {error.stage}" == where
    assert (error.retryable, error.exposed) == flags
    reason = f" {last.data['reason']}" if last.type.endswith("denied") else ""
    kind = last.type.removeprefix("capability.")
    assert f"{outcome.effect} {error.category} {kind}{reason}" == how
    assert outcome.execution_id == error.execution_id == last.execution_id
    assert outcome.status == ("cancelled" if kind == "cancelled" else "failed")


@pytest.mark.parametrize(("scenario", "where", "flags", "how"), CASES, ids=NAMES)
async def test_each_code_has_its_public_shape(scenario, where, flags, how):
    """What may leave is the code with its message, or the generic shape; a secret never (SI-9)."""
    outcome, events = await scenario()
    shape = public_error(outcome.error)
    if not flags[1]:
        assert shape == GENERIC
    else:
        assert {"code", "message", "retryable"} <= shape.keys() <= {*GENERIC, "details"}
        assert shape["code"] == where.split()[0]
        assert shape["retryable"] is flags[0]
    said = [shape, str(outcome), str(outcome.error), [event.to_dict() for event in events]]
    assert "secret" not in repr(said)
