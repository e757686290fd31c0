"""The actor of a call is captured at its entry, and nothing in the input makes or changes it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from capgate import Actor, Context, Engine, allow, policy, requires

DANA = Actor("u_dana")


@pytest.fixture
def seen():
    """The actors that the handler ran as."""
    return []


@pytest.fixture
def build(seen):
    """Make an engine whose handler notes who it runs as."""

    def engine(*, access="authenticated", **settings):
        made = Engine("test", **settings)

        @made.capability("act", access=access)
        async def act(ctx: Context, data: dict[str, Any] | None = None) -> None:
            """Act."""
            seen.append(ctx.actor)

        return made

    return engine


async def test_it_is_copied_at_entry(build, seen):
    """SI-3: what the caller does to it while the call waits changes nothing (B 134, 139)."""
    actor = Actor("u_dana", attributes={"roles": ["clerk"]})

    async def rule(request):
        actor.attributes["roles"].append("admin")
        await anyio.lowlevel.checkpoint()
        return True

    await build(access=rule).invoke("act", actor=actor)
    assert seen[0].attributes["roles"] == ["clerk"]


async def test_two_calls_with_one_reused_actor_keep_their_own(build, seen):
    """SI-3: a mutated attribute of one is not the other's (reference B 139)."""
    actor = Actor("u_dana", attributes={"tenant": ["a"]})
    engine = build()
    await engine.invoke("act", actor=actor)
    actor.attributes["tenant"][0] = "b"
    await engine.invoke("act", actor=actor)
    assert [each.attributes["tenant"] for each in seen] == [["a"], ["b"]]


SMUGGLED = [
    {"actor": {"id": "root"}},
    {"actor": "root", "role": "admin", "principal": {"id": "root"}},
    {"ctx": {"actor": "root"}},
    {"permissions": ["root"], "kind": "service"},
]


@pytest.mark.parametrize("data", SMUGGLED, ids=str)
async def test_input_never_makes_identity(build, seen, data):
    """SI-3: keys that look like an identity are data (reference A 47, B 148)."""
    await build().invoke("act", {"data": data}, actor=DANA)
    assert seen == [DANA]
    assert seen[0].permissions == frozenset()


async def test_an_input_named_like_the_context_is_refused(build, seen):
    """SI-3: the context is no parameter that a caller can fill."""
    outcome = await build().attempt("act", {"ctx": {"actor": "root"}}, actor=DANA)
    assert outcome.error.code == "INPUT_INVALID"
    assert seen == []


async def test_a_parameter_called_actor_is_data(seen):
    """SI-3: it holds what was sent; the caller's identity is `ctx.actor`."""
    engine, sent = Engine("test"), []

    @engine.capability("act")
    async def act(actor: str, ctx: Context) -> None:
        """Act."""
        sent.append((actor, ctx.actor))

    await engine.invoke("act", {"actor": "root"}, actor=DANA)
    assert sent == [("root", DANA)]


async def test_the_input_of_an_anonymous_call_makes_nobody(build, seen):
    """SI-3: nor does it where nobody is known."""
    outcome = await build().attempt("act", {"data": {"actor": {"id": "root"}}})
    assert outcome.error.code == "UNAUTHENTICATED"
    await build(access="public").invoke("act", {"data": {"actor": {"id": "root"}}})
    assert seen == [Actor.anonymous()]


async def test_a_handler_cannot_change_its_actor(build):
    """The value is frozen; the context is read-only (reference A 48)."""
    engine, refused = Engine("test"), []

    @engine.capability("act")
    async def act(ctx: Context) -> None:
        """Act."""
        for target, name in ((ctx, "actor"), (ctx.actor, "id"), (ctx.actor, "permissions")):
            try:
                setattr(target, name, "root")
            except AttributeError:
                refused.append(name)

    await engine.invoke("act", actor=DANA)
    assert refused == ["actor", "id", "permissions"]


async def test_a_nested_call_has_the_same_actor_unless_given_another(seen):
    """Delegation is explicit, and another actor's rights are judged."""
    engine = Engine("test")

    @engine.capability("inner", access=requires("inner"))
    async def inner(ctx: Context) -> None:
        """Act."""
        seen.append(ctx.actor)

    @engine.capability("outer")
    async def outer(ctx: Context) -> list[str]:
        """Act."""
        bot = Actor("bot", "service", permissions={"inner"})
        outcomes = [await ctx.attempt("inner"), await ctx.attempt("inner", actor=bot)]
        return [each.status for each in outcomes]

    assert await engine.invoke("outer", actor=DANA) == ["failed", "completed"]
    assert seen == [Actor("bot", "service")]


async def test_every_stage_sees_the_same_identity(build, seen):
    """Access rule, policies and handler judge and serve one actor."""
    asked = []
    spy = policy("spy", phases={"discovery", "invocation", "execution"})(
        lambda r: asked.append(r.actor) or allow()
    )
    engine = build(policies=[spy], access=lambda r: asked.append(r.actor) or True)
    await engine.invoke("act", actor=DANA)
    assert [*asked, *seen] == [DANA] * 5


@pytest.mark.parametrize("name", ["id", "kind", "permissions", "attributes"])
async def test_an_actor_that_was_tampered_with_is_malformed(build, seen, name):
    """SI-3: a value forced past the constructor is UNAUTHENTICATED, not trusted."""
    actor = Actor("u_dana", attributes={"roles": ["clerk"]})
    object.__setattr__(actor, name, 42)
    outcome = await build(access="public").attempt("act", actor=actor)
    assert outcome.error.code == "UNAUTHENTICATED"
    assert seen == []


async def test_discovery_refuses_a_malformed_actor(build):
    """The walk is judged like a call (reference A 251)."""
    with pytest.raises(Exception, match="UNAUTHENTICATED"):
        await build().discover("direct", actor="u_dana")
