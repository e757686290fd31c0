"""Factories of dependencies that break: the call fails closed, or does not notice."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest
import structlog.testing

from capgate import Actor, Context, Engine, Limits

DANA = Actor("u_dana")


class Deps:
    def __init__(self, name="engine's"):
        self.name = name


def world(deps=None, deps_type=Deps, handler=None, fields=None, **settings):
    """Build an engine with the capability `cap`, which names its deps."""
    settings = {"on_internal_error": lambda _: None, **settings}
    engine = Engine("test", deps=deps, deps_type=deps_type, **settings)

    async def name(ctx: Context[Deps]) -> str:
        """Name the deps."""
        return ctx.deps.name

    engine.capability("cap", **fields or {})(handler or name)
    return engine


def broken(invocation):
    raise ValueError("secret")


async def broken_later(invocation):
    raise ValueError("secret")


@asynccontextmanager
async def broken_on_entry(invocation):
    raise ValueError("secret")
    yield


async def hanging(invocation):
    await anyio.sleep_forever()


@pytest.mark.parametrize("factory", [broken, broken_later, broken_on_entry, hanging])
async def test_a_broken_factory_fails_the_call(factory):
    """A factory that raises or hangs is INTERNAL_ERROR: no handler, not exposed, one end (SI-7)."""
    engine = world(factory, limits=Limits(policy_timeout=0.01))
    outcome = await engine.attempt("cap", actor=DANA)
    error = outcome.error
    assert (error.code, error.exposed, outcome.effect) == ("INTERNAL_ERROR", False, "none")
    assert "secret" not in f"{error}{error!r}"


@pytest.mark.parametrize("value", [None, 3, "deps"])
@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_factory_of_the_wrong_type_never_reaches_the_handler(value, asynchronous):
    """What a factory makes has the deps type, or the call does not run."""
    ran = []

    def factory(invocation):
        return value

    async def factory_later(invocation):
        return value

    async def cap() -> None:
        """Note that it ran."""
        ran.append(1)

    engine = world(factory_later if asynchronous else factory, handler=cap)
    try:
        outcome = await engine.attempt("cap", actor=DANA)
    except TypeError:
        outcome = None
    assert outcome is None or outcome.error.code == "INTERNAL_ERROR"
    assert ran == []


async def test_leaving_that_breaks_changes_nothing():
    """Deps that raise when left are reported; the outcome stays."""

    @asynccontextmanager
    async def factory(invocation):
        yield Deps("made")
        raise ValueError

    assert await world(factory).invoke("cap", actor=DANA) == "made"


@pytest.mark.parametrize("how", ["raises", "hangs", "exits"])
async def test_a_broken_exit_is_reported(how):
    """Deps whose exit raises or hangs are reported once; an exit of the process goes on."""

    @asynccontextmanager
    async def factory(invocation):
        yield Deps("made")
        if how == "hangs":
            await anyio.sleep_forever()
        raise KeyboardInterrupt if how == "exits" else ValueError("canary")

    engine = world(factory, limits=Limits(policy_timeout=0.05))
    with structlog.testing.capture_logs() as logs:
        if how == "exits":
            with pytest.raises(KeyboardInterrupt):
                await engine.attempt("cap", actor=DANA)
            return
        assert await engine.invoke("cap", actor=DANA) == "made"
    assert [entry["event"] for entry in logs] == ["deps_exit_failed"]
