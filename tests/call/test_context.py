"""What a handler sees of its own call: everything, read-only, under any parameter name."""

from __future__ import annotations

import anyio
import pytest

from capgate import Actor, Context, Engine
from capgate.call import follow_progress

ALICE = Actor("usr_alice", permissions={"read"})
FIELDS = [
    "execution_id",
    "capability_id",
    "surface",
    "actor",
    "deps",
    "approval",
    "correlation_id",
    "parent_execution_id",
    "idempotency_key",
    "deadline",
    "logger",
    "state",
]


class Desk:
    """An engine that keeps the contexts its handlers got."""

    def __init__(self, **settings):
        self.engine = Engine("desk", **settings)
        self.contexts = []

        @self.engine.capability("look", access="public", side_effect="read", expose={"test"})
        async def look(n: int, anything: Context) -> int:
            """Look around."""
            self.contexts.append(anything)
            return n

    async def look(self, **options):
        return await self.engine.attempt("look", {"n": 1}, surface="test", **options)


@pytest.fixture
def desk():
    """One desk."""
    return Desk()


async def test_the_context_tells_the_call(desk):
    """Ids, surface, actor and correlation are the call's."""
    options = {"actor": ALICE, "correlation_id": "cor-1", "idempotency_key": "key-1"}
    outcome = await desk.look(**options)
    (ctx,) = desk.contexts
    assert ctx.execution_id == outcome.execution_id
    assert (ctx.capability_id, ctx.surface) == ("look", "test")
    assert (ctx.actor, ctx.correlation_id) == (ALICE, "cor-1")
    assert (ctx.idempotency_key, ctx.attempt_number) == ("key-1", 1)
    assert (ctx.parent_execution_id, ctx.approval, ctx.deps) == (None, None, None)


async def test_ids_have_defaults(desk):
    """Without a correlation id or key the execution id stands in for both."""
    outcome = await desk.look()
    (ctx,) = desk.contexts
    assert ctx.correlation_id == ctx.idempotency_key == outcome.execution_id
    assert ctx.actor is Actor.anonymous()


async def test_deps_are_the_engine_s_or_the_call_s():
    """`deps` are the engine's unless the call brings its own."""
    desk = Desk(deps="engine's")
    await desk.look()
    await desk.look(deps="call's")
    assert [ctx.deps for ctx in desk.contexts] == ["engine's", "call's"]


async def test_the_context_cannot_be_changed(desk):
    """No field can be set, and nothing can be hung on it."""
    await desk.look()
    (ctx,) = desk.contexts
    for name in [*FIELDS, "extra"]:
        with pytest.raises(AttributeError):
            setattr(ctx, name, "x")


async def test_state_is_the_call_s_own(desk):
    """`state` is one mapping per call, and no other call's."""
    await desk.look()
    await desk.look()
    first, second = desk.contexts
    first.state["seen"] = True
    assert first.state == {"seen": True}
    assert second.state == {}


async def test_the_context_is_no_input(desk):
    """The context's parameter is not part of the input schema, and cannot be passed."""
    view = desk.engine.describe("look")
    assert set(view.input_schema["properties"]) == {"n"}
    given = {"n": 1, "anything": None}
    outcome = await desk.engine.attempt("look", given, surface="test")
    assert outcome.error.code == "INPUT_INVALID"


async def test_progress_reaches_who_follows():
    """`progress` is told to whoever follows the call, and to nobody else."""
    engine, told = Engine("e"), []

    @engine.capability("work", access="public")
    async def work(ctx: Context) -> None:
        """Work."""
        await ctx.progress(1, 2, "half")
        await ctx.progress(2)

    async def follower(progress):
        told.append((progress.done, progress.total, progress.message))

    with follow_progress(follower):
        await engine.invoke("work")
    await engine.invoke("work")
    assert told == [(1, 2, "half"), (2, None, None)]


async def test_followers_do_not_meet():
    """Two calls side by side each have their own follower."""
    engine, told = Engine("e"), []

    @engine.capability("work", access="public")
    async def work(ctx: Context, n: int) -> None:
        """Work."""
        await ctx.progress(n)

    async def follow(n):
        async def follower(progress):
            told.append((n, progress.done))

        with follow_progress(follower):
            await engine.invoke("work", {"n": n})

    async with anyio.create_task_group() as group:
        for n in range(5):
            group.start_soon(follow, n)
    assert sorted(told) == [(n, n) for n in range(5)]


async def test_progress_is_not_for_synchronous_handlers():
    """In a synchronous handler `progress` is a clear TypeError."""
    engine = Engine("e")

    @engine.capability("work", access="public")
    def work(ctx: Context) -> str:
        """Work."""
        with pytest.raises(TypeError, match="async def"):
            ctx.progress(1).send(None)
        return ctx.capability_id

    assert await engine.invoke("work") == "work"


async def test_repr_tells_ids_only(desk):
    """The repr shows the capability and the execution, no input and no actor."""
    outcome = await desk.look(actor=ALICE)
    assert repr(desk.contexts[0]) == f"Context('look', {outcome.execution_id!r})"
