"""Strict audit, seen from a call: no handler runs unwritten, and the end is awaited."""

from __future__ import annotations

import anyio
import pytest
import structlog.testing

from capgate import (
    Actor,
    ApprovalRule,
    AuditConfig,
    CapabilityError,
    ConfigurationError,
    Engine,
    Limits,
    Retry,
    public_error,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
BOSS = Actor("u_boss")


def failing_on(*types, kind="sync"):
    """Make a sink that fails on events of these types."""

    def sync(event):
        if event.type.split(".")[1] in types:
            raise OSError("canary")

    async def later(event):
        sync(event)

    async def hanging(event):
        if event.type.split(".")[1] in types:
            await anyio.sleep_forever()

    return {"sync": sync, "async": later, "hanging": hanging}[kind]


def world(*sinks, **fields):
    """Build a strict engine whose last sink remembers, with the capability `cap`."""
    kept, ran = MemoryAudit(), []
    engine = Engine(
        "test",
        audit=AuditConfig([*sinks, kept], strict=True),
        limits=Limits(audit_timeout=0.1),
        on_internal_error=lambda _: None,
    )

    @engine.capability("cap", **fields)
    async def cap() -> int:
        """Note that it ran."""
        ran.append([event.type.split(".")[1] for event in kept.events])
        return 1

    return engine, kept, ran


KINDS = pytest.mark.parametrize("kind", ["sync", "async", "hanging"])


async def call(engine, *, entered=False, **options):
    """Make one call, in an entered engine if wanted."""
    with structlog.testing.capture_logs():
        if not entered:
            return await engine.attempt("cap", actor=DANA, **options)
        async with engine:
            return await engine.attempt("cap", actor=DANA, **options)


@pytest.mark.parametrize("entered", [False, True])
@KINDS
async def test_an_unwritten_start_is_refused(kind, entered):
    """A sink that fails on `started` refuses the call: AUDIT_UNAVAILABLE, handler not entered."""
    engine, kept, ran = world(failing_on("started", kind=kind))
    outcome = await call(engine, entered=entered)
    error = outcome.error
    assert (error.code, error.stage, error.retryable) == ("AUDIT_UNAVAILABLE", "execution", True)
    assert public_error(error)["code"] == "INTERNAL_ERROR"
    assert (outcome.effect, ran) == ("none", [])
    types = [event.type.split(".")[1] for event in kept.events]
    assert types == ["requested", "started", "failed"]
    assert kept.events[-1].data["code"] == "AUDIT_UNAVAILABLE"


@pytest.mark.parametrize("entered", [False, True])
@KINDS
@pytest.mark.parametrize("type_", ["requested", "completed"])
async def test_only_the_start_decides(type_, kind, entered):
    """A sink that fails on another event is reported; the outcome stays."""
    if (type_, kind, entered) == ("requested", "hanging", True):
        pytest.skip("`started` waits in line behind an event that hangs: it is late itself")
    engine, kept, ran = world(failing_on(type_, kind=kind))
    outcome = await call(engine, entered=entered)
    assert (outcome.status, len(ran)) == ("completed", 1)
    assert [event.type.split(".")[1] for event in kept.events][-1] == "completed"


async def test_the_start_is_written_before_the_handler():
    """From inside the handler, the written `started` is visible, in an async sink too."""
    written = []

    async def slow(event):
        await anyio.lowlevel.checkpoint()
        written.append(event.type.split(".")[1])

    engine, _, _ = world(slow)
    seen = []

    @engine.capability("looks")
    async def looks() -> None:
        """Look at what is written."""
        seen.extend(written)

    async with engine:
        await engine.invoke("looks", actor=DANA)
        assert written[-1] == "completed"
    assert seen == ["requested", "started"]


async def test_every_attempt_follows_one_start():
    """Retries run under the one written start."""
    engine = Engine(
        "test",
        audit=AuditConfig([kept := MemoryAudit()], strict=True),
        jitter=lambda: 0.0,
        on_internal_error=lambda _: None,
    )

    @engine.capability("cap", side_effect="read", retry=Retry(2))
    async def cap() -> int:
        """Fail once."""
        if not kept.of_type("capability.retried"):
            raise CapabilityError("EXECUTION_FAILED", retryable=True)
        return 1

    assert await engine.invoke("cap", actor=DANA) == 1
    types = [event.type.split(".")[1] for event in kept.events]
    assert types == ["requested", "started", "retried", "completed"]


async def test_an_unwritten_start_gives_the_approval_back():
    """On resume, a start that cannot be written releases the consumed approval (SI-5)."""
    broken = [True]

    def sink(event):
        if event.type == "capability.started" and broken:
            broken.clear()
            raise OSError

    engine, _, ran = world(sink, approval=ApprovalRule())
    with structlog.testing.capture_logs():
        asked = (await engine.attempt("cap", actor=DANA)).approval
        await engine.approvals.approve(asked.id, by=BOSS)
        outcome = await engine.attempt_resume(asked.id)
        assert (outcome.error.code, ran) == ("AUDIT_UNAVAILABLE", [])
        assert await engine.resume(asked.id) == 1
    assert len(ran) == 1


@pytest.mark.parametrize("sinks", [[], ()])
def test_strict_without_a_sink_is_refused(sinks):
    """Strict audit with nowhere to write is a ConfigurationError."""
    with pytest.raises(ConfigurationError, match="sink"):
        Engine("test", audit=AuditConfig(sinks, strict=True))


async def test_a_first_sink_that_fails_does_not_starve_the_second():
    """Of two sinks, the second gets `started` even if the first raises on it."""
    engine, kept, _ = world(failing_on("started"))
    await call(engine)
    assert len(kept.of_type("capability.started")) == 1


@pytest.mark.parametrize("end", ["completed", "failed", "denied", "approval_requested"])
async def test_the_end_is_written_before_the_caller_knows(end):
    """When a call returns, its terminal event is written, a suspension's too, in any sink."""
    written = []

    async def slow(event):
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        written.append(event.type.split(".")[1])

    engine = Engine(
        "test", audit=AuditConfig([slow], strict=True), on_internal_error=lambda _: None
    )
    approval = ApprovalRule() if end == "approval_requested" else None
    access = (lambda request: False) if end == "denied" else "authenticated"

    @engine.capability("cap", approval=approval, access=access)
    async def cap() -> int:
        """End in one of three ways."""
        if end == "failed":
            raise ValueError
        return 1

    async with engine:
        await engine.attempt("cap", actor=DANA)
        assert written[-1:] == [end]
