"""Exceptions that break when they are looked at, raised by synchronous handlers."""

from __future__ import annotations

import anyio
import pytest

from capgate import Effect, Engine


class Breaks(Exception):
    """Its class cannot be read."""

    @property
    def __class__(self):
        raise RuntimeError("CANARY")


class Lies(Exception):
    """Says it ends an iteration."""

    __class__ = StopIteration


@pytest.mark.parametrize("kind", [Breaks, Lies, StopIteration])
async def test_a_hostile_exception_fails_the_call_at_once(kind):
    """EXECUTION_FAILED, the effect unknown, and the place is free for the next call."""
    engine = Engine("e")

    @engine.capability("work", access="public", max_concurrency=1, timeout=60)
    def work() -> None:
        """Raise."""
        raise kind("x")

    for _ in range(2):
        with anyio.fail_after(30):
            outcome = await engine.attempt("work")
        assert (outcome.error.code, outcome.effect) == ("EXECUTION_FAILED", Effect.UNKNOWN)
