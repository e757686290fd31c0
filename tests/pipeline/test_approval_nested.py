"""A call inside a handler that needs approval."""

from __future__ import annotations

import pytest

from capgate import Actor, ApprovalRequired, ApprovalRule, CapabilityError, Context, public_error

MIA = Actor("u_mia")


@pytest.fixture
def nested(world):
    """An outer capability that calls a gated one and does with it as told."""

    def build(handle):
        async def outer(ctx: Context) -> str:
            return await handle(ctx)

        return world().add(approval=ApprovalRule()).add("outer", handler=outer)

    return build


async def test_it_raises_in_the_handler_and_the_request_stays_pending(nested):
    """APPROVAL_REQUIRED with the id; whoever is entitled may decide, and it can be resumed."""
    caught = []

    async def handle(ctx):
        try:
            await ctx.invoke("act", {"n": 4})
        except CapabilityError as error:
            caught.append(error)
        return "went on"

    built = nested(handle)
    assert (await built.call(id="outer")).output == "went on"
    assert caught[0].code == "APPROVAL_REQUIRED"
    record = await built.engine.approvals.approve(caught[0].approval_id, by=MIA)
    assert (await built.resume(record)).output == 4


async def test_attempt_gives_the_outcome(nested):
    """Nothing is raised by `ctx.attempt`."""
    kinds = []

    async def handle(ctx):
        kinds.append(type(await ctx.attempt("act")))
        return "went on"

    await nested(handle).call(id="outer")
    assert kinds == [ApprovalRequired]


async def test_a_nested_request_that_escapes_fails_the_outer_call(nested):
    """As any nested error: EXECUTION_FAILED, not exposed, no inner id outside (reference A 188)."""

    async def handle(ctx):
        return await ctx.invoke("act")

    built = nested(handle)
    error = (await built.call(id="outer")).error
    assert (error.code, error.exposed) == ("EXECUTION_FAILED", False)
    assert error.approval_id is None
    assert error.__cause__.code == "APPROVAL_REQUIRED"
    assert public_error(error)["code"] == "INTERNAL_ERROR"
    (record,) = await built.engine.approvals.find("pending")
    assert record.capability_id == "act"


async def test_a_nested_request_binds_the_same_actor_and_correlation(nested):
    """It is the caller who asks, on the surface `direct`."""

    async def handle(ctx):
        await ctx.attempt("act")
        return "went on"

    built = nested(handle)
    await built.call(id="outer", correlation_id="cor")
    (record,) = await built.engine.approvals.find()
    assert (record.actor, record.surface, record.correlation_id) == (
        Actor("u_dana"),
        "direct",
        "cor",
    )


async def test_an_approval_of_the_outer_call_does_not_approve_the_inner_one(world):
    """SI-5: an approval binds one exact operation."""

    async def outer(ctx: Context) -> str:
        return (await ctx.attempt("act")).status

    built = world().add(approval=ApprovalRule())
    built.add("outer", handler=outer, approval=ApprovalRule())
    record = await built.granted(id="outer")
    assert (await built.resume(record)).output == "approval-required"
    assert built.ran == []
