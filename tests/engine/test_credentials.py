"""From credentials to an actor: one authenticator for every entry that takes credentials."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    CapabilityError,
    ConfigurationError,
    Engine,
    Limits,
    Unauthenticated,
    public_error,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")


async def directory(credentials):
    if credentials == "outage":
        raise ConnectionError("canary")
    if credentials == "slow":
        await anyio.sleep_forever()
    if credentials == "expired":
        raise Unauthenticated("The token has expired.")
    return {"good": DANA, "text": "u_dana", "half": object.__new__(Actor)}.get(credentials)


@pytest.fixture
def engine():
    made = Engine(
        "test",
        authenticate=directory,
        limits=Limits(policy_timeout=0.1),
        on_internal_error=lambda error: None,
    )

    @made.capability("act")
    async def act() -> str:
        """Act."""
        return "done"

    return made


async def by_authenticate(engine, credentials):
    return await engine.authenticate(credentials)


async def by_invoke(engine, credentials):
    return await engine.invoke("act", credentials=credentials)


async def by_discover(engine, credentials):
    return await engine.discover("direct", credentials=credentials)


async def by_attempt(engine, credentials):
    return (await engine.attempt("act", credentials=credentials)).unwrap()


async def by_view(engine, credentials):
    return await engine.on("direct").invoke("act", credentials=credentials)


ENTRIES = [by_authenticate, by_invoke, by_discover, by_attempt, by_view]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("credentials", ["unknown", "expired", "", 0, False], ids=repr)
async def test_refused_credentials(engine, entry, credentials):
    """None or `Unauthenticated` is UNAUTHENTICATED, at every entry."""
    with pytest.raises(CapabilityError) as caught:
        await entry(engine, credentials)
    assert caught.value.code == "UNAUTHENTICATED"
    assert caught.value.stage == "authentication"


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("credentials", ["outage", "slow", "text", "half"])
async def test_an_outage(engine, entry, credentials):
    """SI-7: INTERNAL_ERROR at stage authentication, at every entry, cause kept private."""
    with pytest.raises(CapabilityError) as caught:
        await entry(engine, credentials)
    error = caught.value
    assert (error.code, error.stage) == ("INTERNAL_ERROR", "authentication")
    assert error.__cause__ is not None
    assert public_error(error)["code"] == "INTERNAL_ERROR"
    assert "canary" not in str(error)


async def test_good_credentials_prove_an_actor(engine):
    """The public method, and each entry that takes them."""
    assert await engine.authenticate("good") == DANA
    assert await engine.invoke("act", credentials="good") == "done"
    assert [each.id for each in await engine.discover("direct", credentials="good")] == ["act"]
    explanation = await engine.explain("act", credentials="good")
    assert explanation.verdict == "would-execute"


async def test_the_proven_actor_is_a_copy():
    """SI-3: what the authenticator keeps and changes later is not the caller's identity."""
    kept = Actor("u_dana", attributes={"roles": ["clerk"]})

    async def authenticate(credentials):
        return kept

    engine = Engine("test", authenticate=authenticate)
    proven = await engine.authenticate("c")
    kept.attributes["roles"].append("admin")
    assert proven.attributes["roles"] == ["clerk"]


async def test_no_credentials_prove_nobody(engine):
    """None is refused without asking."""
    with pytest.raises(CapabilityError, match="UNAUTHENTICATED"):
        await engine.authenticate(None)


async def test_an_engine_without_authenticator_says_so():
    """A TypeError at once, at every entry."""
    engine = Engine("test")
    with pytest.raises(TypeError, match="authenticat"):
        await engine.authenticate("c")
    with pytest.raises(TypeError, match="authenticat"):
        await engine.discover("direct", credentials="c")


async def test_actor_and_credentials_together_are_a_mistake(engine):
    """Not a guess, at every entry."""
    for call in (
        lambda: engine.invoke("act", actor=DANA, credentials="good"),
        lambda: engine.discover("direct", actor=DANA, credentials="good"),
        lambda: engine.explain("act", actor=DANA, credentials="good"),
    ):
        with pytest.raises(TypeError, match="actor or credentials"):
            await call()


@pytest.mark.parametrize("wrong", ["token", 5, DANA])
def test_what_cannot_be_asked_is_no_authenticator(wrong):
    """Refused at construction, as is an authorizer that is none."""
    with pytest.raises(ConfigurationError):
        Engine("test", authenticate=wrong)
    with pytest.raises(ConfigurationError):
        Engine("test", authorize=wrong)


async def test_credentials_never_reach_the_audit():
    """SI-10: by construction."""
    audit = MemoryAudit()
    engine = Engine("test", authenticate=directory, audit=audit)
    await engine.attempt("missing", credentials="canary-token")
    assert "canary-token" not in str([event.to_dict() for event in audit.events])
