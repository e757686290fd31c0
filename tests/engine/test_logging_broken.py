"""Hooks and loggers that break: contained, whatever they do."""

from __future__ import annotations

import io

import anyio
import pytest
import structlog
import structlog.testing

from capgate import Actor, ConfigurationError, Engine, Limits, Pipeline, Stage
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("canary")

    __repr__ = __str__


@pytest.fixture
def configured():
    """Configure structlog for one test."""
    before = structlog.get_config()
    yield structlog.configure
    structlog.configure(**before)


def world(handler=None, fields=None, **settings):
    """Build an engine with the capability `cap`."""
    engine = Engine("test", **settings)

    async def fail(text: str = "") -> int:
        """Fail."""
        raise ValueError(f"cause {text}")

    engine.capability("cap", **fields or {})(handler or fail)
    return engine


async def logs_of(engine, payload=None):
    """Make one call; returns what was logged, and the outcome."""
    with structlog.testing.capture_logs() as logs:
        outcome = await engine.attempt("cap", payload or {}, actor=DANA)
    return logs, outcome


@pytest.mark.parametrize("raised", [ValueError("canary"), None])
async def test_a_hook_that_fails_changes_nothing(raised):
    """A hook that raises is reported by type, and the error is logged by default."""

    def hook(error):
        raise raised or KeyError("canary")

    logs, outcome = await logs_of(world(on_internal_error=hook))
    assert outcome.error.code == "EXECUTION_FAILED"
    assert [entry["event"] for entry in logs] == ["internal_error_hook_failed", "internal_error"]
    assert "canary" not in repr(logs[0])


async def test_a_hook_that_cancels_itself_changes_nothing():
    """A cancellation that a hook made up does not reach the caller."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            saved = cancelled

    def hook(error):
        raise saved

    _, outcome = await logs_of(world(on_internal_error=hook))
    assert outcome.error.code == "EXECUTION_FAILED"


async def test_an_async_hook_is_refused_or_the_error_is_logged():
    """A coroutine function as hook is refused; one that only turns out to be is not relied on."""

    async def hook(error):
        raise AssertionError

    def looks_sync(error):
        return hook(error)

    with pytest.raises(ConfigurationError, match="on_internal_error"):
        world(on_internal_error=hook)
    logs, outcome = await logs_of(world(on_internal_error=looks_sync))
    assert outcome.error.code == "EXECUTION_FAILED"
    assert [entry["event"] for entry in logs] == ["internal_error_hook_failed", "internal_error"]


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, KeyError])
async def test_a_logger_that_raises_changes_nothing(configured, kind):
    """A processor that raises neither changes an outcome nor reaches the caller."""

    def broken(logger, name, event):
        raise kind("canary")

    configured(processors=[broken])
    audit = MemoryAudit()
    engine = world(audit=[audit, lambda event: 1 / 0], limits=Limits(cleanup_grace=0.001))
    outcome = await engine.attempt("cap", actor=DANA)
    assert outcome.error.code == "EXECUTION_FAILED"
    assert audit.events[-1].type == "capability.failed"
    explained = await engine.explain("cap", actor=DANA)
    assert explained.verdict == "would-execute"


async def test_a_logger_that_raises_does_not_break_the_sweep_of_a_call(configured):
    """Settle callbacks and hooks that fail under a broken logger leave the outcome alone."""

    class Leaving(Stage):
        name = "leaving"

        def run(self, invocation):
            invocation.on_settle(lambda: 1 / 0)

    def broken(logger, name, event):
        raise ValueError

    configured(processors=[broken])
    engine = world(
        on_internal_error=lambda error: 1 / 0,
        pipeline=Pipeline.default().before("policy", Leaving()),
    )
    assert (await engine.attempt("cap", actor=DANA)).error.code == "EXECUTION_FAILED"


async def test_an_unprintable_cause_is_contained(configured):
    """A cause whose text raises does not break the call, under a plain traceback renderer."""
    out = io.StringIO()
    configured(
        processors=[structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(out),
    )

    async def fail() -> int:
        """Raise what cannot be printed."""
        raise UnprintableError

    outcome = await world(fail).attempt("cap", actor=DANA)
    assert outcome.error.code == "EXECUTION_FAILED"
