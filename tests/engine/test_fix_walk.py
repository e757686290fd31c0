"""Edges of the discovery walk: kept requests, deceiving functions, clocks, dependencies."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from functools import lru_cache

import anyio
import pytest

from capgate import Actor, CapabilityError, Engine, Limits, allow, deny, hide, policy

DANA = Actor("u_dana")


def engine_of(count, *rules, **settings):
    """Build an engine with `count` capabilities and discovery policies."""
    made = [policy(f"rule{n}", phases={"discovery"})(each) for n, each in enumerate(rules)]
    engine = Engine("test", policies=made, **settings)
    for n in range(count):

        async def cap() -> None:
            """Do nothing."""

        engine.capability(f"cap{n:03}")(cap)
    return engine


async def ids(engine, **options):
    return [each.id for each in await engine.discover("direct", actor=DANA, **options)]


async def test_a_kept_request_stays_as_it_was():
    """A policy that keeps its requests finds each about the capability it was asked about."""
    kept = []

    def keeps(request):
        kept.append(request)
        return allow()

    await ids(engine_of(5, keeps))
    assert [request.capability.id for request in kept] == [f"cap{n:03}" for n in range(5)]


async def test_an_answer_cached_by_request_is_not_mixed_up():
    """A policy that caches by request object judges every capability by itself (SI-7)."""

    @lru_cache
    def cached(request):
        return hide() if request.capability.id == "cap002" else allow()

    assert await ids(engine_of(4, cached)) == ["cap000", "cap001", "cap003"]


async def test_every_policy_is_asked_until_the_strictest_is_known():
    """With several policies the strictest answer holds, whichever comes first."""

    def hides_odd(request):
        return hide() if int(request.capability.id[3:]) % 2 else allow()

    def breaks_two(request):
        return 1 / 0 if request.capability.id == "cap002" else allow()

    engine = engine_of(5, lambda _: allow(), hides_odd, breaks_two)
    assert await ids(engine) == ["cap000", "cap004"]


@pytest.mark.parametrize("walks", [1, 3])
async def test_a_plain_function_may_answer_with_an_awaitable(walks):
    """What a plain function returns to be awaited is awaited, and nothing is left unawaited."""

    async def later(request):
        await anyio.lowlevel.checkpoint()
        return deny() if request.capability.id == "cap001" else allow()

    def deceives(request):
        return later(request)

    engine = engine_of(3, deceives)
    for _ in range(walks):
        assert await ids(engine) == ["cap000", "cap002"]


async def test_a_blocking_policy_excludes_its_capability():
    """A synchronous policy that blocks past its time on one capability drops that one only."""

    def blocks(request):
        if request.capability.id == "cap001":
            time.sleep(0.03)
        return allow()

    engine = engine_of(3, blocks, limits=Limits(policy_timeout=0.02))
    assert await ids(engine) == ["cap000", "cap002"]


async def test_a_broken_policy_is_told_once_for_a_walk():
    """A policy that breaks on every capability is one private failure of the walk."""
    told = []
    engine = engine_of(9, lambda _: 1 / 0, on_internal_error=told.append)
    assert await ids(engine) == []
    assert [type(error.__cause__) for error in told] == [ZeroDivisionError]


async def test_a_factory_makes_deps_for_a_walk():
    """Policies of a walk see what the engine's factory makes, entered for the walk."""
    order = []

    @asynccontextmanager
    async def factory(invocation):
        order.append(invocation.actor.id)
        yield "made"
        order.append("left")

    def sees(request):
        order.append(request.deps)
        return allow()

    assert await ids(engine_of(1, sees, deps=factory)) == ["cap000"]
    assert order == ["u_dana", "made", "left"]


async def test_deps_that_cannot_be_made_fail_a_walk():
    """A walk without its dependencies is INTERNAL_ERROR, not exposed; never a list."""

    def factory(invocation):
        raise ConnectionError("canary")

    engine = engine_of(1, lambda _: allow(), deps=factory, on_internal_error=lambda _: None)
    with pytest.raises(CapabilityError) as caught:
        await ids(engine)
    error = caught.value
    assert (error.code, error.stage, error.exposed) == ("INTERNAL_ERROR", "discovery", False)
    assert "canary" not in str(error)
