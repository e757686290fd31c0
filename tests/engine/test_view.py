"""`engine.on(surface)`: the same calls with the surface fixed."""

from __future__ import annotations

import inspect

import pytest

from capgate import (
    Actor,
    ApprovalRule,
    CapabilityError,
    Context,
    DiscoveryScope,
    Engine,
)

DANA = Actor("u_dana")
BOSS = Actor("u_boss")


def world():
    """Build an engine with capabilities on two surfaces."""
    engine = Engine("test", surfaces={"kiosk"})
    fields = {"side_effect": "read", "risk": "low"}

    @engine.capability("here", expose={"kiosk"}, tags={"a"}, **fields)
    async def here(ctx: Context) -> str:
        """Name the surface."""
        return ctx.surface

    @engine.capability("gated", expose={"kiosk", "direct"}, approval=ApprovalRule(), **fields)
    async def gated(ctx: Context) -> str:
        """Name the surface."""
        return ctx.surface

    @engine.capability("there", **fields)
    async def there(ctx: Context) -> str:
        """Name the surface."""
        return ctx.surface

    return engine, engine.on("kiosk"), here


async def test_calls_go_through_the_views_surface():
    """`invoke` and `attempt` of a view use its surface; what is not exposed there is missing."""
    engine, kiosk, here = world()
    assert kiosk.surface == "kiosk"
    assert await kiosk.invoke("here", actor=DANA) == "kiosk"
    assert (await kiosk.attempt(here, {}, actor=DANA)).output == "kiosk"
    for call, name in ((kiosk.invoke, "there"), (engine.invoke, "here")):
        with pytest.raises(CapabilityError, match="CAPABILITY_NOT_FOUND"):
            await call(name, actor=DANA)


@pytest.mark.parametrize("verb", ["invoke", "attempt", "explain"])
async def test_nobody_can_name_another_surface(verb):
    """A view refuses `surface=`: TypeError, nothing runs."""
    _, kiosk, _ = world()
    with pytest.raises(TypeError, match="surface"):
        await getattr(kiosk, verb)("here", {}, actor=DANA, surface="direct")
    with pytest.raises(TypeError):
        await kiosk.discover(surface="direct")
    with pytest.raises(AttributeError):
        kiosk.surface = "direct"


async def test_a_view_resumes_what_was_asked_on_its_surface():
    """An approval asked for on another surface does not exist for a view."""
    engine, kiosk, _ = world()
    mine = (await kiosk.attempt("gated", actor=DANA)).approval
    other = (await engine.attempt("gated", actor=DANA)).approval
    for record in (mine, other):
        await engine.approvals.approve(record.id, by=BOSS)
    assert (await kiosk.attempt_resume(other.id)).error.code == "APPROVAL_NOT_FOUND"
    assert await kiosk.resume(mine.id, actor=DANA) == "kiosk"
    with pytest.raises(TypeError):
        await kiosk.resume(mine.id, expected_surface="direct")


async def test_a_view_discovers_and_explains_on_its_surface():
    """`discover` and `explain` of a view use its surface too."""
    _, kiosk, _ = world()
    assert [each.id for each in await kiosk.discover(actor=DANA)] == ["here", "gated"]
    scope = DiscoveryScope(tags=["a"])
    assert [each.id for each in await kiosk.discover(actor=DANA, scope=scope)] == ["here"]
    assert (await kiosk.explain("here", actor=DANA)).verdict == "would-execute"
    assert (await kiosk.explain("there", actor=DANA)).verdict == "refused"


@pytest.mark.parametrize("verb", ["invoke", "attempt"])
async def test_an_unknown_option_is_a_type_error(verb):
    """A misspelt option is refused at once by an engine and by its views."""
    engine, kiosk, _ = world()
    for caller in (engine, kiosk):
        with pytest.raises(TypeError):
            await getattr(caller, verb)("here", {}, acter=DANA)


async def test_a_view_authenticates_like_its_engine():
    """A view takes credentials as its engine does."""

    async def authenticate(credentials):
        return DANA if credentials == "good" else None

    engine = Engine("test", authenticate=authenticate)

    @engine.capability("cap", expose={"direct"})
    async def cap(ctx: Context) -> str:
        """Name the caller."""
        return ctx.actor.id

    assert await engine.on("direct").invoke(cap, credentials="good") == "u_dana"


@pytest.mark.parametrize("junk", [None, 3, "", "  ", b"direct", ["direct"]])
def test_a_view_needs_a_name(junk):
    """A surface that is no name is a TypeError; an undeclared one is a view of nothing."""
    with pytest.raises(TypeError):
        Engine("test").on(junk)


async def test_a_view_of_an_unknown_surface_sees_nothing():
    """A surface that nobody exposes is empty, and everything on it is missing."""
    engine, _, _ = world()
    moon = engine.on("moon")
    assert await moon.discover(actor=DANA) == []
    with pytest.raises(CapabilityError, match="CAPABILITY_NOT_FOUND"):
        await moon.invoke("there", actor=DANA)


def test_a_view_has_the_calls_of_its_engine():
    """Every public call of an engine that takes a surface is on its views."""
    _, kiosk, _ = world()
    for verb in ("invoke", "attempt", "resume", "attempt_resume", "discover", "explain"):
        assert inspect.iscoroutinefunction(getattr(kiosk, verb))
