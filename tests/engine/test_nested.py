"""Calls inside calls: what the inner one inherits, and that it never outlives the outer."""

from __future__ import annotations

import anyio
import pytest

from capgate import Actor, CancelToken, CapabilityError, Context, Engine
from capgate.audit import MemoryAudit

ALICE = Actor("usr_alice", permissions={"read"})
BOB = Actor("usr_bob")


class Nest:
    """An engine with `outer`, whose body a test gives, and `inner`."""

    def __init__(self):
        self.audit = MemoryAudit()
        self.engine = Engine("nest", audit=self.audit)
        self.inner_contexts = []
        self.came_back = []
        fields = {"access": "public", "side_effect": "write", "risk": "low"}
        fields["expose"] = {"direct", "http"}

        @self.engine.capability("inner", **fields)
        async def inner(ctx: Context, wait: bool = False, fail: bool = False) -> str:
            """Do the inner thing."""
            self.inner_contexts.append(ctx)
            if wait:
                await anyio.sleep_forever()
            if fail:
                raise ValueError("inner")
            return "inner"

    def outer(self, body, **fields):
        async def outer(ctx: Context) -> str:
            """Do the outer thing."""
            return await body(ctx)

        options = {"access": "public", "side_effect": "write", **fields}
        self.engine.capability("outer", **options)(outer)

    def of(self, capability_id):
        return [event for event in self.audit.events if event.capability_id == capability_id]

    def trail(self, capability_id):
        return [event.type.removeprefix("capability.") for event in self.of(capability_id)]


@pytest.fixture
def nest():
    """One nest."""
    return Nest()


async def test_inner_call_inherits_the_caller(nest):
    """Same actor, correlation id and token; `parent_execution_id` set; a terminal event each."""

    async def body(ctx):
        return await ctx.invoke("inner")

    nest.outer(body)
    outcome = await nest.engine.attempt("outer", actor=ALICE, correlation_id="cor-1")
    assert outcome.output == "inner"
    (inner,) = nest.inner_contexts
    assert inner.actor is ALICE
    assert inner.parent_execution_id == outcome.execution_id
    assert inner.execution_id != outcome.execution_id
    assert {event.correlation_id for event in nest.audit.events} == {"cor-1"}
    assert {event.parent_execution_id for event in nest.of("inner")} == {outcome.execution_id}
    assert {event.parent_execution_id for event in nest.of("outer")} == {None}
    assert nest.trail("inner") == nest.trail("outer") == ["requested", "started", "completed"]


async def test_inner_call_correlates_by_the_outer_execution(nest):
    """Without a correlation id the outer execution id ties both together."""

    async def body(ctx):
        return await ctx.invoke("inner")

    nest.outer(body)
    outcome = await nest.engine.attempt("outer")
    assert {event.correlation_id for event in nest.audit.events} == {outcome.execution_id}


async def test_inner_call_is_direct_unless_given(nest):
    """The inner surface is `direct`, not the outer's, unless given."""

    async def body(ctx):
        await ctx.invoke("inner")
        await ctx.invoke("inner", surface="http")
        return "done"

    nest.outer(body, expose={"http"}, risk="low")
    await nest.engine.invoke("outer", surface="http")
    assert [ctx.surface for ctx in nest.inner_contexts] == ["direct", "http"]


async def test_inner_call_may_have_another_actor(nest):
    """An actor given for the inner call is the inner actor."""

    async def body(ctx):
        return await ctx.invoke("inner", actor=BOB)

    nest.outer(body)
    await nest.engine.invoke("outer", actor=ALICE)
    assert nest.inner_contexts[0].actor is BOB
    assert nest.of("inner")[-1].actor["id"] == "usr_bob"
    assert nest.of("outer")[-1].actor["id"] == "usr_alice"


async def test_inner_call_takes_part_in_authorization(nest):
    """An inner call passes every gate of its own: exposure too."""

    @nest.engine.capability(
        "hidden", access="public", side_effect="read", risk="low", expose={"mcp"}
    )
    async def hidden() -> str:
        """Stay hidden."""
        return "hidden"

    async def body(ctx):
        outcome = await ctx.attempt("hidden")
        return outcome.error.code.value

    nest.outer(body)
    assert await nest.engine.invoke("outer") == "CAPABILITY_NOT_FOUND"
    assert nest.trail("hidden") == ["requested", "denied"]


async def test_inner_failure_caught_by_the_outer(nest):
    """`ctx.attempt` gives the inner failure as a value; the outer completes."""

    async def body(ctx):
        outcome = await ctx.attempt("inner", {"fail": True})
        return outcome.status

    nest.outer(body)
    assert await nest.engine.invoke("outer") == "failed"
    assert nest.trail("inner") == ["requested", "started", "failed"]
    assert nest.trail("outer") == ["requested", "started", "completed"]


async def test_inner_failure_let_out_by_the_outer(nest):
    """`ctx.invoke` raises the inner failure; let out, it is the outer's own, not exposed."""

    async def body(ctx):
        return await ctx.invoke("inner", {"wait": "not a flag"})

    nest.outer(body)
    outcome = await nest.engine.attempt("outer")
    assert (outcome.error.code, outcome.error.exposed) == ("EXECUTION_FAILED", False)
    assert isinstance(outcome.error.__cause__, CapabilityError)
    assert outcome.error.__cause__.code == "INPUT_INVALID"
    assert outcome.error.execution_id == outcome.execution_id
    assert nest.trail("inner") == ["requested", "failed"]


@pytest.mark.parametrize("method", ["invoke", "attempt"])
@pytest.mark.parametrize("why", ["attempt", "call", "token"])
async def test_inner_call_ends_by_the_outer_interruption(nest, method, why):
    """The outer's interruption ends the inner call, also from `ctx.attempt`: an event each."""
    token = CancelToken()

    async def body(ctx):
        if why == "token":
            token.cancel()
        await getattr(ctx, method)("inner", {"wait": True})
        nest.came_back.append(True)
        return "done"

    nest.outer(body, **({"timeout": 0.02} if why == "attempt" else {}))
    limit = 0.02 if why == "call" else None
    outcome = await nest.engine.attempt("outer", timeout=limit, cancel=token)
    assert outcome.error.code == ("CANCELLED" if why == "token" else "TIMEOUT")
    assert nest.came_back == []
    assert nest.trail("outer") == ["requested", "started", "cancelled"]
    assert nest.trail("inner")[-1] == "cancelled"
    assert nest.trail("inner").count("cancelled") == 1


async def test_native_cancellation_ends_both(nest):
    """A native cancellation ends inner and outer call: an event each, then it goes on."""

    async def body(ctx):
        return await ctx.invoke("inner", {"wait": True})

    nest.outer(body)
    with anyio.move_on_after(0.02) as scope:
        await nest.engine.attempt("outer")
    assert scope.cancelled_caught
    ends = [event for event in nest.audit.events if event.type == "capability.cancelled"]
    assert [event.capability_id for event in ends] == ["inner", "outer"]
    assert [event.data["native"] for event in ends] == [True, True]


async def test_inner_timeout_is_the_inner_s_own(nest):
    """`timeout=` of the inner call ends only that one."""

    async def body(ctx):
        outcome = await ctx.attempt("inner", {"wait": True}, timeout=0.02)
        return outcome.error.code.value

    nest.outer(body)
    assert await nest.engine.invoke("outer") == "TIMEOUT"
    assert nest.trail("inner") == ["requested", "started", "cancelled"]
    assert nest.trail("outer") == ["requested", "started", "completed"]


async def test_inner_token_is_the_inner_s_own(nest):
    """A token of its own stops only the inner call."""
    token = CancelToken()
    token.cancel()

    async def body(ctx):
        outcome = await ctx.attempt("inner", cancel=token)
        return outcome.error.code.value

    nest.outer(body)
    assert await nest.engine.invoke("outer") == "CANCELLED"
    assert nest.trail("inner") == ["requested", "cancelled"]


async def test_inner_calls_run_side_by_side(nest):
    """Inner calls in a task group of the handler's each have their own execution."""

    async def body(ctx):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(ctx.invoke, "inner")
        return "done"

    nest.outer(body)
    outcome = await nest.engine.attempt("outer")
    assert len({ctx.execution_id for ctx in nest.inner_contexts}) == 3
    assert {ctx.parent_execution_id for ctx in nest.inner_contexts} == {outcome.execution_id}


async def test_inner_calls_are_not_for_synchronous_handlers(nest):
    """In a synchronous handler `ctx.invoke` is a clear TypeError, before any inner execution."""

    @nest.engine.capability("sync", access="public")
    def sync(ctx: Context) -> str:
        """Try it."""
        for call in (ctx.invoke, ctx.attempt):
            with pytest.raises(TypeError, match="async def"):
                call("inner")
        return "refused"

    assert await nest.engine.invoke("sync") == "refused"
    assert nest.trail("inner") == []
