"""Every seam that calls an application's code, broken in every way: each call still ends once."""

from __future__ import annotations

import anyio
import pytest
import structlog.testing

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    CapabilityError,
    Context,
    Engine,
    Limits,
    Pipeline,
    Redact,
    Retry,
    Stage,
    policy,
)
from capgate.approvals import MemoryApprovals
from capgate.audit import MemoryAudit
from capgate.idempotency import MemoryIdempotency

DANA = Actor("u_dana")
LIMITS = Limits(policy_timeout=0.05, audit_timeout=0.05, approval_expires_in=0.05)
BOSS = Actor("u_boss")


class HostileError(Exception):
    """An exception whose attributes cannot be read."""

    def __getattribute__(self, name):
        raise RuntimeError("secret")


class Hostile:
    """An object whose attributes cannot be read, nor its truth."""

    def __getattribute__(self, name):
        raise RuntimeError("secret")

    def __bool__(self):
        raise RuntimeError("secret")

    def __eq__(self, other):
        raise RuntimeError("secret")

    __hash__ = None


async def stray():
    """Return a cancellation that was delivered to somebody else."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            return cancelled


async def behaviour(how):
    """Make a function that misbehaves in one way, whatever it is given."""
    error = {
        "raises": ValueError("secret"),
        "raises hostile": HostileError(),
        "raises group": ExceptionGroup("secret", [ValueError(), HostileError()]),
        "raises error": CapabilityError("FORBIDDEN", "secret"),
        "raises stray": await stray(),
    }.get(how.removesuffix(" later"))

    def now(*_, **__):
        if error is not None:
            raise error
        return {"answers None": None, "answers hostile": Hostile(), "answers text": "text"}[how]

    async def later(*_, **__):
        await anyio.lowlevel.checkpoint()
        if error is not None:
            raise error
        await anyio.sleep_forever()

    return later if how.endswith("later") else now


class Calling(Stage):
    """Calls a function, or leaves it to be called at the end."""

    def __init__(self, function, *, settles=False):
        self.name = "own"
        self.function = function
        self.settles = settles

    def run(self, invocation):
        if self.settles:
            return invocation.on_settle(self.function)
        return self.function(invocation)


class Now:
    def __init__(self, function):
        self.now = function


def stored(kind, function):
    """Build a store whose every method is the function."""
    names = {
        MemoryApprovals: ("create", "get", "decide", "consume", "release", "find"),
        MemoryIdempotency: ("begin", "complete", "suspend", "release"),
    }[kind]
    return type("Broken", (kind,), {name: staticmethod(function) for name in names})()


def default():
    return Pipeline.default()


RULE = {"approval": ApprovalRule()}
SETTINGS = {
    "policy discovery": lambda f: {"policies": [policy("p", phases={"discovery"})(f)]},
    "policy invocation": lambda f: {"policies": [policy("p")(f)]},
    "policy execution": lambda f: {"policies": [policy("p", phases={"execution"})(f)]},
    "authorize": lambda f: {"authorize": f},
    "authenticate": lambda f: {"authenticate": f},
    "stage": lambda f: {"pipeline": default().before("policy", Calling(f))},
    "first stage": lambda f: {"pipeline": default().before("discovery", Calling(f))},
    "last stage": lambda f: {"pipeline": default().after("output-validation", Calling(f))},
    "settle": lambda f: {"pipeline": default().before("policy", Calling(f, settles=True))},
    "sink": lambda f: {"audit": [f, MemoryAudit()]},
    "hook": lambda f: {"on_internal_error": f},
    "clock": lambda f: {"clock": Now(f)},
    "new_id": lambda f: {"new_id": f},
    "jitter": lambda f: {"jitter": f},
    "deps": lambda f: {"deps": f},
    "inline approval": lambda f: {"approvals": ApprovalConfig(handler=f)},
    "approval store": lambda f: {"approvals": stored(MemoryApprovals, f)},
    "idempotency store": lambda f: {"idempotency": stored(MemoryIdempotency, f)},
}
FIELDS = {
    "access": lambda f: {"access": f},
    "redact": lambda f: {"redact": Redact(output=f)},
    "shown input": lambda f: {"redact": Redact(approval_input=f), **RULE},
    "retry": lambda f: {"retry": Retry(2, when=f, backoff=0.001), "idempotent": True},
    "inline approval": lambda f: RULE,
    "approval store": lambda f: RULE,
    "jitter": lambda f: {"retry": Retry(2, backoff=0.001), "idempotent": True},
}
SYNC = ["raises", "raises hostile", "raises group", "raises error", "raises stray"]
# What is only ever called synchronously: an async one is refused or told elsewhere.
PLAIN = {"clock", "new_id", "jitter", "hook", "retry"}
HOWS = [*SYNC, "answers None", "answers hostile", "answers text"]
HOWS += [*(f"{how} later" for how in SYNC), "hangs later"]


def cases(seams):
    """Return every way in which each seam can break."""
    return [(s, how) for s in seams for how in HOWS if not (s in PLAIN and how.endswith("later"))]


async def ended(engine, **options):
    """Call `cap`; what escapes is told by its type only, since it may break whoever prints it."""
    escaped = None
    try:
        return await engine.attempt("cap", **options)
    except BaseException as error:
        escaped = type(error).__name__
    raise AssertionError(f"{escaped} escaped from attempt()")


@pytest.mark.parametrize(("seam", "how"), cases(sorted({*SETTINGS, *FIELDS})))
async def test_a_call_ends_once_whatever_breaks(seam, how):
    """A seam that raises, lies or hangs leaves one outcome and one terminal event (SI-12)."""
    function, audit = await behaviour(how), MemoryAudit()
    settings = SETTINGS.get(seam, lambda f: {})(function)
    kept = settings["audit"][1] if "audit" in settings else audit
    engine = Engine(
        "test",
        limits=LIMITS,
        **{"audit": audit, "on_internal_error": lambda _: None, **settings},
    )

    @engine.capability("cap", **FIELDS.get(seam, lambda f: {})(function))
    async def cap(ctx: Context) -> int:
        """Fail once, so that a retry is due."""
        if ctx.attempt_number == 1 and seam in {"retry", "jitter"}:
            raise CapabilityError("EXECUTION_FAILED", retryable=True)
        return 1

    who = {"credentials": "token"} if seam == "authenticate" else {"actor": DANA}
    with structlog.testing.capture_logs() as logs:
        outcome = await ended(engine, idempotency_key="k", **who)
    assert outcome.status in {"completed", "failed", "approval-required"}
    assert len([event for event in kept.events if is_terminal(event)]) == 1
    said = f"{outcome!r}{[e.to_dict() for e in kept.events]}"
    assert "secret" not in said + "".join(entry["event"] for entry in logs)


def is_terminal(event):
    kind = event.type.split(".")[1]
    ends = {"denied", "completed", "failed", "cancelled"}
    return kind in ends or (kind == "approval_requested" and event.data["suspended"])


HARMLESS = ["sink", "hook", "clock", "new_id", "jitter", "settle", "inline approval"]


@pytest.mark.parametrize(("seam", "how"), cases(HARMLESS))
async def test_what_only_observes_changes_no_outcome(seam, how):
    """A sink, hook, clock, id maker, jitter, settle callback or inline handler never decides."""
    function = await behaviour(how)
    settings = SETTINGS[seam](function)
    engine = Engine("test", limits=LIMITS, **{"on_internal_error": lambda _: None, **settings})

    @engine.capability("cap", **FIELDS.get(seam, lambda f: {})(function))
    async def cap(ctx: Context) -> int:
        """Fail once where a retry is due, or by contract where the hook is told."""
        if ctx.attempt_number == 1 and seam == "jitter":
            raise CapabilityError("EXECUTION_FAILED", retryable=True)
        if seam == "hook":
            raise ValueError
        return 1

    with structlog.testing.capture_logs():
        outcome = await ended(engine, actor=DANA)
    expected = {"hook": "failed", "inline approval": "approval-required"}
    assert outcome.status == expected.get(seam, "completed")


REFUSING = ["policy invocation", "authorize", "access", "authenticate", "stage", "first stage"]


@pytest.mark.parametrize("how", [how for how in HOWS if how != "answers None"])
@pytest.mark.parametrize("seam", REFUSING)
async def test_what_decides_fails_closed(seam, how):
    """A policy, rule, authenticator or stage that breaks never lets a call through (SI-7)."""
    function, ran = await behaviour(how), []
    settings = SETTINGS.get(seam, lambda f: {})(function)
    engine = Engine(
        "test",
        limits=LIMITS,
        **{"policies": [], "on_internal_error": lambda _: None, **settings},
    )

    @engine.capability("cap", **FIELDS.get(seam, lambda f: {})(function))
    async def cap() -> None:
        """Note that it ran."""
        ran.append(1)

    who = {"credentials": "token"} if seam == "authenticate" else {"actor": DANA}
    outcome = await ended(engine, **who)
    assert (outcome.status, ran) == ("failed", [])
    assert "secret" not in f"{outcome!r}"
