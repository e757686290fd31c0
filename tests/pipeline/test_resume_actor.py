"""Who executes a resumed call: its requester, with the authority of today."""

from __future__ import annotations

import warnings

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    Context,
    Limits,
    allow,
    deny,
    policy,
    public_error,
    requires,
)
from capgate.approvals import MemoryApprovals
from capgate.engine import UnsafeWarning

THEN = Actor("u_dana", permissions={"refund"}, attributes={"level": 1})
NOW = Actor("u_dana", permissions={"refund", "more"}, attributes={"level": 2})
FIRED = Actor("u_dana")
EVE = Actor("u_eve", permissions={"refund"})


@pytest.fixture
def seen():
    return []


@pytest.fixture
def watched(world, seen):
    """An engine whose handler notes who it runs as."""

    async def act(ctx: Context) -> None:
        seen.append(ctx.actor)

    def build(**settings):
        return world(**settings).add(
            handler=act, approval=ApprovalRule(), access=requires("refund")
        )

    return build


def loading(answer):
    async def load_actor(actor):
        return answer(actor) if callable(answer) else answer

    return ApprovalConfig(load_actor=load_actor)


async def test_the_given_actor_is_used_as_of_today(watched, seen):
    """Reference A 129: the handler saw the attributes of the time of the request."""
    built = watched()
    await built.resume(await built.granted(actor=THEN), actor=NOW)
    assert seen[0].attributes == {"level": 2}
    assert seen[0].permissions == {"refund", "more"}


async def test_load_actor_is_asked_where_no_actor_is_given(watched, seen):
    """It gets the actor as stored and says who that is today."""
    asked = []
    built = watched(approvals=loading(lambda actor: asked.append(actor) or NOW))
    await built.resume(await built.granted(actor=THEN))
    assert asked == [THEN]
    assert seen[0].attributes == {"level": 2}


async def test_load_actor_is_not_asked_where_an_actor_is_given(watched, seen):
    """The caller's own credentials are fresher."""
    asked = []
    built = watched(approvals=loading(lambda actor: asked.append(actor) or FIRED))
    await built.resume(await built.granted(actor=THEN), actor=NOW)
    assert (asked, len(seen)) == ([], 1)


async def test_without_either_the_stored_actor_runs(watched, seen):
    """As it was at the request: the engine warns where that may be long ago."""
    built = watched()
    await built.resume(await built.granted(actor=THEN))
    assert seen[0].attributes == {"level": 1}
    assert seen[0].permissions == {"refund"}


@pytest.mark.parametrize("how", ["given", "loaded"])
async def test_a_permission_that_was_taken_away_refuses(watched, seen, how):
    """SI-2: access is judged again with today's authority; the approval is not burnt (A 129)."""
    settings = {"approvals": loading(FIRED)} if how == "loaded" else {}
    built = watched(**settings)
    record = await built.granted(actor=THEN)
    error = (await built.resume(record, **({"actor": FIRED} if how == "given" else {}))).error
    assert error.code == "FORBIDDEN"
    assert await built.status(record) == "approved"
    assert seen == []


async def test_an_actor_that_is_gone_is_unauthenticated(watched, seen):
    """None from `load_actor`: the requester does not exist any more."""
    built = watched(approvals=loading(None))
    record = await built.granted(actor=THEN)
    error = (await built.resume(record)).error
    assert (error.code, error.stage) == ("UNAUTHENTICATED", "authentication")
    assert built.last()["reason"] == "unauthenticated"
    assert await built.status(record) == "approved"
    assert seen == []


def raising(actor):
    raise ConnectionError("canary")


async def hanging(actor):
    await anyio.sleep_forever()


@pytest.mark.parametrize(
    "config",
    [
        loading(raising),
        ApprovalConfig(load_actor=hanging),
        loading("u_dana"),
        loading(lambda actor: object.__new__(Actor)),
        loading(lambda actor: EVE),
        loading(lambda actor: Actor("u_dana", "service", permissions={"refund"})),
        loading(lambda actor: Actor.anonymous()),
    ],
    ids=["raises", "hangs", "text", "half-built", "somebody-else", "other-kind", "anonymous"],
)
async def test_a_broken_directory_lets_nobody_in(watched, seen, config):
    """SI-3, SI-7: it executes as its requester or not at all; the approval is not burnt."""
    built = watched(approvals=config, limits=Limits(policy_timeout=0.2))
    record = await built.granted(actor=THEN)
    outcome = await built.resume(record)
    assert outcome.status == "failed"
    assert outcome.error.stage == "authentication"
    assert "canary" not in str(public_error(outcome.error))
    assert await built.status(record) == "approved"
    assert seen == []


async def test_execution_policies_see_todays_actor(watched, seen):
    """They judge the world after the wait."""

    @policy("level", phases={"execution"})
    def level(request):
        return allow() if request.actor.attributes["level"] < 2 else deny("Too high.")

    built = watched(policies=[level])
    record = await built.granted(actor=THEN)
    assert (await built.resume(record, actor=NOW)).error.code == "POLICY_DENIED"
    assert (await built.resume(record)).status == "completed"


async def test_a_public_capability_resumes_for_its_anonymous_requester(world):
    """Whoever relays it: nobody is nobody."""
    built = world().add(approval=ApprovalRule(), access="public")
    record = await built.granted(actor=None)
    assert (await built.resume(record)).output == 1


class Durable(MemoryApprovals):
    durable = True
    __slots__ = ()


def test_a_durable_store_without_a_directory_is_warned_about(world):
    """Authority as stored may be old by the time it is used."""
    with pytest.warns(UnsafeWarning, match="load_actor"):
        world(approvals=Durable())


def test_with_a_directory_or_in_memory_there_is_no_warning(world):
    """Nothing to say where nothing is stale."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        world(approvals=ApprovalConfig(Durable(), load_actor=hanging))
        world(approvals=MemoryApprovals())
        world()
