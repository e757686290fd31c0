"""Who may learn why an input is invalid: only a caller that authentication would let through."""

from __future__ import annotations

import pytest

from capgate import Actor, policy, public_error, requires

DANA = Actor("u_dana")


def details_of(outcome):
    assert outcome.error.code == "INPUT_INVALID"
    return public_error(outcome.error).get("details")


@pytest.mark.parametrize("access", ["authenticated", requires("root"), lambda r: False])
async def test_an_authenticated_caller_learns_the_issues(world, access):
    """Paths and rules, whatever the access rule would say later."""
    built = world().add(access=access)
    (issue,) = details_of(await built.call({"n": "canary"}, actor=DANA))["issues"]
    assert issue["path"] == "n"
    assert "canary" not in str(issue)


@pytest.mark.parametrize("actor", [None, Actor.anonymous()], ids=["missing", "anonymous"])
@pytest.mark.parametrize("access", ["authenticated", requires("root"), lambda r: True])
async def test_an_anonymous_caller_of_what_is_protected_gets_the_bare_code(world, access, actor):
    """No schema probing (reference B 94)."""
    assert details_of(await world().add(access=access).call({"n": "x"}, actor=actor)) is None


@pytest.mark.parametrize("actor", [None, Actor.anonymous(), DANA])
async def test_anybody_may_learn_how_to_call_what_is_public(world, actor):
    """A public capability has no schema to hide."""
    assert details_of(await world().add(access="public").call({"n": "x"}, actor=actor))


@pytest.mark.parametrize("access", ["public", "authenticated"])
@pytest.mark.parametrize("actor", ["u_dana", object.__new__(Actor)], ids=["text", "half-built"])
async def test_a_malformed_identity_gets_the_bare_code(world, access, actor):
    """Authentication would refuse it, for a public capability too."""
    assert details_of(await world().add(access=access).call({"n": "x"}, actor=actor)) is None


@pytest.mark.parametrize(
    ("credentials", "told"), [("good", True), ("bad", False), ("outage", False)]
)
@pytest.mark.parametrize("access", ["public", "authenticated"])
async def test_credentials_are_resolved_before_anything_is_told(world, access, credentials, told):
    """They are proven first; refused or unproven ones get the bare code."""

    async def authenticate(given):
        if given == "outage":
            raise ConnectionError
        return DANA if given == "good" else None

    built = world(authenticate=authenticate).add(access=access)
    outcome = await built.call({"n": "x"}, actor=None, credentials=credentials)
    assert (details_of(outcome) is not None) is told


async def test_invalid_input_is_a_failure_and_policies_are_not_asked(world):
    """Validation precedes policy; the event says failed, not denied (reference A 31)."""
    asked = []
    built = world(policies=[policy("spy")(asked.append)]).add()
    await built.call({"n": "x"})
    assert asked == []
    assert built.told() == ["requested", "failed"]
    assert (built.last()["stage"], built.last()["attempts"]) == ("input-validation", 0)


async def test_unexposed_comes_before_invalid(world):
    """Exposure is judged before the input (reference A 15)."""
    built = world().add(expose=set())
    assert (await built.call({"n": "x"})).error.code == "CAPABILITY_NOT_FOUND"
