"""Dependencies of a call: the engine's value or factory, the call's own, and their type."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalRule,
    Context,
    Engine,
    Invocation,
    Pipeline,
    Stage,
    allow,
    policy,
)

PHASES = {"discovery", "invocation", "execution"}
DANA = Actor("u_dana")
BOSS = Actor("u_boss")


class Deps:
    def __init__(self, name="engine's"):
        self.name = name


class OtherDeps(Deps):
    pass


def world(deps=None, deps_type=Deps, handler=None, fields=None, **settings):
    """Build an engine with the capability `cap`, which names its deps."""
    settings = {"on_internal_error": lambda _: None, **settings}
    engine = Engine("test", deps=deps, deps_type=deps_type, **settings)

    async def name(ctx: Context[Deps]) -> str:
        """Name the deps."""
        return ctx.deps.name

    engine.capability("cap", **fields or {})(handler or name)
    return engine


async def test_the_engines_value_is_the_default():
    """A call without deps has the engine's value, a call with deps its own; a subclass fits."""
    engine = world(Deps())
    assert await engine.invoke("cap", actor=DANA) == "engine's"
    assert await engine.invoke("cap", actor=DANA, deps=Deps("own")) == "own"
    assert await engine.invoke("cap", actor=DANA, deps=OtherDeps("sub")) == "sub"


@pytest.mark.parametrize("junk", [3, "deps", object(), {}, Deps, False, 0, ""])
async def test_wrong_deps_are_a_type_error_at_once(junk):
    """Deps of the wrong type are a TypeError, for every way to call and before anything ran."""
    ran = []

    async def cap() -> None:
        """Note that it ran."""
        ran.append(1)

    engine = world(Deps(), handler=cap, fields={"approval": ApprovalRule()})
    for call in (engine.invoke, engine.attempt, engine.explain):
        with pytest.raises(TypeError, match="Deps"):
            await call("cap", actor=DANA, deps=junk)
    asked = (await engine.attempt("cap", actor=DANA)).approval
    await engine.approvals.approve(asked.id, by=BOSS)
    with pytest.raises(TypeError, match="Deps"):
        await engine.resume(asked.id, deps=junk)
    await engine.resume(asked.id)
    assert ran == [1]


async def test_missing_deps_are_a_type_error_at_once():
    """With a deps type and no deps anywhere, a call is a TypeError that names it."""
    engine = world()
    for call in (engine.invoke, engine.attempt, engine.explain):
        with pytest.raises(TypeError, match="Deps"):
            await call("cap", actor=DANA)
    assert await engine.invoke("cap", actor=DANA, deps=Deps("own")) == "own"


@pytest.mark.parametrize("junk", [3, "deps", object()])
def test_a_wrong_value_is_refused_at_construction(junk):
    """An engine's own deps of the wrong type are a TypeError when it is built."""
    with pytest.raises(TypeError):
        Engine("test", deps_type=Deps, deps=junk)


@pytest.mark.parametrize("junk", [3, "Deps", Deps()])
def test_a_deps_type_must_be_a_class(junk):
    """A `deps_type` that is no class is a TypeError when the engine is built."""
    with pytest.raises(TypeError):
        Engine("test", deps_type=junk)


async def test_without_a_type_anything_goes():
    """An engine without a deps type takes any value, and None when there is none."""

    async def cap(ctx: Context) -> str:
        """Show the deps."""
        return repr(ctx.deps)

    engine = world(deps_type=None, handler=cap)
    assert await engine.invoke("cap", actor=DANA) == "None"
    assert await engine.invoke("cap", actor=DANA, deps=3) == "3"
    assert await world(7, deps_type=None, handler=cap).invoke("cap", actor=DANA) == "7"


def value_factory(invocation):
    return Deps(f"for {invocation.actor.id}")


async def awaitable_factory(invocation):
    await anyio.lowlevel.checkpoint()
    return value_factory(invocation)


@asynccontextmanager
async def context_factory(invocation):
    yield value_factory(invocation)


async def awaited_context_factory(invocation):
    return context_factory(invocation)


FACTORIES = [value_factory, awaitable_factory, context_factory, awaited_context_factory]


@pytest.mark.parametrize("factory", FACTORIES)
async def test_a_factory_makes_deps_for_each_call(factory):
    """A factory, sync, async or a context manager, makes deps from the request's facts."""
    engine = world(factory)
    assert await engine.invoke("cap", actor=DANA) == "for u_dana"
    assert await engine.invoke("cap", actor=BOSS) == "for u_boss"
    assert await engine.invoke("cap", actor=DANA, deps=Deps("own")) == "own"


async def test_a_factory_sees_the_facts_of_the_request():
    """A factory is given ids, capability, surface and actor; the input is not known yet."""
    seen = []

    def factory(invocation):
        seen.append(invocation)
        assert isinstance(invocation, Invocation)
        assert invocation.input is None
        return Deps()

    engine = world(factory)
    outcome = await engine.attempt("cap", actor=DANA, correlation_id="c")
    view = seen[0]
    assert (view.execution_id, view.correlation_id) == (outcome.execution_id, "c")
    assert (view.capability.id, view.surface, view.actor) == ("cap", "direct", DANA)


class Seeing(Stage):
    name = "seeing"

    def __init__(self, see):
        self.see = see

    def run(self, invocation):
        self.see(invocation)


async def test_policies_rules_stages_and_handlers_share_the_deps():
    """Everything of one call sees the same deps, made once."""
    made, seen = [], []

    def factory(invocation):
        made.append(Deps("made"))
        return made[-1]

    def see(view):
        seen.append(view.deps)
        return True

    sees = policy("sees", phases=PHASES)(lambda request: see(request) and allow())
    pipeline = Pipeline.default().before("policy", Seeing(see))
    engine = world(factory, policies=[sees], authorize=see, pipeline=pipeline)
    assert await engine.invoke("cap", actor=DANA) == "made"
    assert (len(made), seen) == (1, made * 5)


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled", "native"])
async def test_a_context_manager_is_left_after_the_call(end):
    """Deps that were entered are left once the call has ended, however it ended."""
    order = []

    @asynccontextmanager
    async def factory(invocation):
        order.append("enter")
        try:
            yield Deps()
        finally:
            await anyio.lowlevel.checkpoint()
            order.append("leave")

    async def cap() -> None:
        """End in one of four ways."""
        order.append("run")
        if end == "failed":
            raise ValueError
        await anyio.sleep(0 if end == "completed" else 60)

    engine, native = world(factory, handler=cap), end == "native"
    with anyio.move_on_after(0.01 if native else 10):
        outcome = await engine.attempt("cap", actor=DANA, timeout=10 if native else 0.01)
        assert outcome.status == end
    assert order == ["enter", "run", "leave"]


async def test_deps_of_a_nested_call_are_its_parents():
    """A nested call has its parent's deps unless given others."""

    async def outer(ctx: Context[Deps]) -> list[str]:
        """Call on twice."""
        return [
            await ctx.invoke("inner"),
            await ctx.invoke("inner", deps=Deps("own")),
        ]

    engine = world(context_factory, handler=outer)

    @engine.capability("inner")
    async def inner(ctx: Context[Deps]) -> str:
        """Name the deps."""
        return ctx.deps.name

    assert await engine.invoke("cap", actor=DANA) == ["for u_dana", "own"]
