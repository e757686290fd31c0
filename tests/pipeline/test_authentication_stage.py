"""Authentication: is there an identity, and is it well formed?"""

from __future__ import annotations

import anyio
import pytest

from capgate import Actor, Limits, Unauthenticated, allow, deny, policy, public_error

DANA = Actor("u_dana")
UNAUTHENTICATED = {
    "code": "UNAUTHENTICATED",
    "message": "Authentication is required.",
    "retryable": False,
}


class Impostor(Actor):
    """An actor whose class may lie."""


async def test_a_missing_actor_is_unauthenticated(world):
    """SI-1: a missing actor is never taken for an anonymous one (reference A 41, 43)."""
    built = world().add()
    error = (await built.call(actor=None)).error
    assert (error.code, error.stage, error.retryable) == (
        "UNAUTHENTICATED",
        "authentication",
        False,
    )
    assert built.told() == ["requested", "denied"]
    assert built.last()["reason"] == "unauthenticated"
    assert built.ran == []


async def test_a_missing_actor_may_call_what_is_public_as_anonymous(world):
    """The one exception, and rules and policies see the explicit anonymous actor."""
    seen = []

    @policy("spy")
    def spy(request):
        seen.append(request.actor)
        return allow()

    built = world(policies=[spy]).add(access="public")
    assert (await built.call(actor=None)).status == "completed"
    assert seen == [Actor.anonymous()]


@pytest.mark.parametrize("access", ["public", "authenticated", lambda r: True])
@pytest.mark.parametrize(
    "actor",
    [
        "u_dana",
        7,
        {"id": "u_dana"},
        object(),
        object.__new__(Actor),
        Actor,
        False,
        0,
        "",
        Impostor("u_dana"),
    ],
    ids=lambda actor: type(actor).__name__,
)
async def test_a_malformed_actor_is_unauthenticated_everywhere(world, access, actor):
    """SI-3: for a public capability too (reference B 140, 141, 142)."""
    built = world().add(access=access)
    error = (await built.call(actor=actor)).error
    assert error.code == "UNAUTHENTICATED"
    assert public_error(error).keys() == {"code", "message", "retryable"}
    assert error.__cause__ is not None
    assert built.ran == []
    assert built.last()["reason"] == "unauthenticated"


class Grenade:
    """Goes off when it is copied a second time: once when the actor is built."""

    copies = 0

    def __deepcopy__(self, memo):
        Grenade.copies += 1
        if Grenade.copies % 2 == 0:
            raise RuntimeError("canary")
        return self


@pytest.mark.parametrize("access", ["public", "authenticated"])
async def test_an_actor_that_raises_when_read_is_unauthenticated(world, access):
    """SI-9: with the cause kept private (reference B 145)."""
    Grenade.copies = 0
    actor = Actor("u_dana", attributes={"grenade": Grenade()})
    built = world().add(access=access)
    error = (await built.call(actor=actor)).error
    assert error.code == "UNAUTHENTICATED"
    assert isinstance(error.__cause__, RuntimeError)
    assert "canary" not in str(public_error(error))
    assert built.ran == []


async def test_the_event_of_a_malformed_actor_names_nobody(world):
    """Whoever could not be read is anonymous in the audit (reference A 45)."""
    built = world().add()
    await built.call(actor="u_mallory")
    assert {event.actor["kind"] for event in built.audit.events} == {"anonymous"}


async def test_events_carry_id_and_kind_only(world):
    """SI-10: attributes, names and permissions never leave (reference A 46)."""
    actor = Actor("u_dana", display_name="canary", attributes={"a": "canary"}, permissions={"c"})
    built = world().add()
    await built.call(actor=actor)
    assert all(event.actor == {"id": "u_dana", "kind": "user"} for event in built.audit.events)
    assert "canary" not in str([event.to_dict() for event in built.audit.events])


async def test_no_policy_is_asked_about_nobody(world):
    """Authentication precedes authorization and policy."""
    asked = []
    built = world(policies=[policy("spy")(asked.append)], authorize=asked.append).add()
    await built.call(actor=None)
    assert asked == []


async def test_credentials_are_resolved_once(world):
    """A discovery policy, invalid input and the stage itself ask for one resolution together."""
    resolved = []

    async def authenticate(credentials):
        resolved.append(credentials)
        return DANA

    @policy("spy", phases={"discovery", "invocation"})
    def spy(request):
        return allow() if request.actor == DANA else deny()

    built = world(authenticate=authenticate, policies=[spy]).add()
    assert (await built.call(actor=None, credentials="c")).status == "completed"
    assert resolved == ["c"]


async def test_until_judged_the_caller_counts_as_anonymous(world):
    """A discovery policy sees nobody where the credentials were refused; the stage refuses."""
    seen = []

    async def authenticate(credentials):
        raise Unauthenticated

    @policy("spy", phases={"discovery"})
    def spy(request):
        seen.append(request.actor.kind)
        return allow()

    built = world(authenticate=authenticate, policies=[spy]).add()
    assert (await built.call(actor=None, credentials="c")).error.code == "UNAUTHENTICATED"
    assert seen == ["anonymous"]


async def hang(credentials):
    await anyio.sleep_forever()


async def fail(credentials):
    raise ConnectionError("canary")


async def lie(credentials):
    return {"id": "u_dana"}


async def half(credentials):
    return object.__new__(Actor)


async def stray(credentials):
    raise anyio.get_cancelled_exc_class()


@pytest.mark.parametrize("authenticate", [hang, fail, lie, half])
@pytest.mark.parametrize("access", ["public", "authenticated"])
async def test_an_outage_of_the_authenticator_is_nobodys_fault(world, authenticate, access):
    """SI-7: INTERNAL_ERROR at stage authentication, and never let through."""
    built = world(authenticate=authenticate, limits=Limits(policy_timeout=0.01)).add(access=access)
    error = (await built.call(actor=None, credentials="c")).error
    assert (error.code, error.stage) == ("INTERNAL_ERROR", "authentication")
    assert error.__cause__ is not None
    assert built.told() == ["requested", "failed"]
    assert built.ran == []
    assert "canary" not in str(public_error(error))


async def test_a_cancellation_that_an_authenticator_makes_up_is_an_outage(
    world, anyio_backend_name
):
    """SI-7: a driver's own cancelled future is not the caller's cancellation."""
    if anyio_backend_name == "trio":
        pytest.skip("trio's cancellation cannot be raised by hand")
    built = world(authenticate=stray).add()
    error = (await built.call(actor=None, credentials="c")).error
    assert (error.code, error.stage) == ("INTERNAL_ERROR", "authentication")


async def refuse(credentials):
    raise Unauthenticated("The token has expired.")


async def none(credentials):
    return None


@pytest.mark.parametrize("authenticate", [refuse, none])
@pytest.mark.parametrize("access", ["public", "authenticated"])
async def test_refused_credentials_are_unauthenticated(world, authenticate, access):
    """None or `Unauthenticated`: whoever shows bad credentials is not let in as nobody."""
    built = world(authenticate=authenticate).add(access=access)
    error = (await built.call(actor=None, credentials="c")).error
    assert (error.code, error.stage) == ("UNAUTHENTICATED", "authentication")
    assert built.last()["reason"] == "unauthenticated"
    assert built.ran == []


async def test_actor_and_credentials_together_are_a_mistake(world):
    """A TypeError at once, not a guess; and credentials need an authenticator."""
    built = world(authenticate=none).add()
    with pytest.raises(TypeError, match="either actor or credentials"):
        await built.call(actor=DANA, credentials="c")
    with pytest.raises(TypeError, match="authenticate"):
        await world().add().call(actor=None, credentials="c")
    assert built.told() == []
