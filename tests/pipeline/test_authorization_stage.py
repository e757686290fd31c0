"""Authorization: only exactly True permits, and every doubt refuses."""

from __future__ import annotations

import time

import anyio
import pytest

from capgate import (
    Actor,
    CapabilityError,
    ErrorCode,
    Forbidden,
    Library,
    Limits,
    Unauthenticated,
    public_error,
    requires,
)

DANA = Actor("u_dana", permissions={"a", "b"})
GENERIC = {"code": "INTERNAL_ERROR", "message": "The operation failed.", "retryable": False}


class Truthy:
    def __bool__(self):
        return True

    def __eq__(self, other):
        return True

    __hash__ = None


ALMOST = [1, "allowed", {"allowed": True}, [True], 1.0, Truthy(), None, False, 0, ..., object()]


def answering(answer, *, later=False):
    async def rule(request):
        return answer

    return rule if later else lambda request: answer


@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("place", ["access", "authorize"])
@pytest.mark.parametrize("answer", ALMOST, ids=lambda a: type(a).__name__ + str(a)[:8])
async def test_only_true_permits(world, place, answer, later):
    """SI-1: nothing that merely looks like it (reference B 152)."""
    rule = answering(answer, later=later)
    engine, fields = ({}, {"access": rule}) if place == "access" else ({"authorize": rule}, {})
    built = world(**engine).add(**fields)
    error = (await built.call()).error
    assert (error.code, error.stage, error.exposed) == ("FORBIDDEN", "authorization", True)
    assert built.ran == []
    assert built.last()["reason"] == "forbidden"


@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
async def test_true_permits(world, later):
    """From a plain function and from a coroutine alike."""
    rule = answering(True, later=later)
    assert (await world(authorize=rule).add(access=rule).call()).status == "completed"


@pytest.mark.parametrize("later", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("place", ["access", "authorize"])
async def test_an_anonymous_actor_that_is_refused_is_unauthenticated(world, place, later):
    """Signing in could help, so say that (reference B 151)."""
    rule = answering(False, later=later)
    engine, fields = ({}, {"access": rule}) if place == "access" else ({"authorize": rule}, {})
    built = world(**engine).add(**{"access": "public", **fields})
    error = (await built.call(actor=Actor.anonymous())).error
    assert error.code == "UNAUTHENTICATED"
    assert built.last()["reason"] == "unauthenticated"


async def test_a_coroutine_in_a_coroutine_does_not_permit(world):
    """SI-1: a forgotten `await` is an object, and objects do not permit."""

    async def true():
        return True

    inner = []

    async def forgetful(request):
        inner.append(true())
        return inner[-1]

    error = (await world().add(access=forgetful).call()).error
    inner[-1].close()
    assert error.code == "FORBIDDEN"


def broken(request):
    raise RuntimeError("canary")


async def broken_later(request):
    raise RuntimeError("canary")


async def hanging(request):
    await anyio.sleep_forever()


async def forging(request):
    raise CapabilityError(ErrorCode.OUTPUT_INVALID, "forged")


def lying(request):
    raise Unauthenticated("canary")


def denying(request):
    raise Forbidden("canary")


def late(request):
    time.sleep(0.03)
    return True


@pytest.mark.parametrize("actor", [DANA, Actor.anonymous()], ids=["dana", "anonymous"])
@pytest.mark.parametrize("place", ["access", "authorize"])
@pytest.mark.parametrize("rule", [broken, broken_later, hanging, forging, lying, denying])
async def test_a_rule_that_breaks_refuses_whoever_asks(world, place, rule, actor):
    """SI-7: FORBIDDEN, not exposed, cause kept (reference B 153, 154, 156)."""
    engine, fields = ({}, {"access": rule}) if place == "access" else ({"authorize": rule}, {})
    built = world(limits=Limits(policy_timeout=0.01), **engine)
    built.add(**{"access": "public", **fields})
    error = (await built.call(actor=actor)).error
    assert (error.code, error.stage, error.exposed) == ("FORBIDDEN", "authorization", False)
    assert error.__cause__ is not None
    assert public_error(error) == GENERIC
    assert built.ran == []
    assert built.last()["reason"] == "forbidden"


async def test_a_broken_rule_is_reported(world):
    """The operator is told what broke."""
    built = world().add(access=broken)
    await built.call()
    (error,) = built.reported
    assert isinstance(error.__cause__, RuntimeError)


async def test_a_rule_that_raises_a_cancellation_refuses(world, anyio_backend_name):
    """SI-7: a sync rule cannot cancel the call it judges."""
    if anyio_backend_name == "trio":
        pytest.skip("trio's cancellation cannot be raised by hand")

    def stray(request):
        raise anyio.get_cancelled_exc_class()

    error = (await world().add(access=stray).call()).error
    assert (error.code, error.exposed) == ("FORBIDDEN", False)


async def test_a_synchronous_rule_that_blocks_past_its_time_refuses(world):
    """SI-12: running out of time refuses, however the time ran out."""
    built = world(limits=Limits(policy_timeout=0.01)).add(access=late)
    error = (await built.call()).error
    assert (error.code, error.exposed) == ("FORBIDDEN", False)


async def test_authenticated_refuses_the_explicitly_anonymous(world):
    """SI-1: an anonymous actor is an actor, but not an authenticated one (reference B 149)."""
    built = world().add()
    error = (await built.call(actor=Actor.anonymous())).error
    assert error.code == "UNAUTHENTICATED"
    assert built.last()["reason"] == "unauthenticated"


async def test_the_authorizer_cannot_open_what_needs_authentication(world):
    """SI-1: an engine-wide yes is no identity."""
    built = world(authorize=lambda r: True).add()
    assert (await built.call(actor=Actor.anonymous())).error.code == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    ("needed", "code"), [(["a"], None), (["a", "b"], None), (["a", "c"], "FORBIDDEN")]
)
async def test_requires_reads_permissions(world, needed, code):
    """Every permission that is named, and nothing else of the actor."""
    outcome = await world().add(access=requires(*needed)).call(actor=DANA)
    assert getattr(getattr(outcome, "error", None), "code", None) == code


async def test_requires_is_not_fooled_by_attributes(world):
    """SI-3: permissions come from the actor's own field."""
    actor = Actor("u_eve", attributes={"permissions": {"a"}})
    assert (await world().add(access=requires("a")).call(actor=actor)).error.code == "FORBIDDEN"


async def test_the_authorizer_is_asked_after_the_access_rule_and_only_then(world):
    """One decision point for the whole engine, public capabilities included."""
    asked = []

    def note(name, answer):
        def rule(request):
            asked.append((name, request.capability_id))
            return answer

        return rule

    built = world(authorize=note("engine", True))
    built.add(access=note("own", True)).add("shut", access=note("own", False))
    built.add("open", access="public")
    for id_ in ("act", "shut", "open"):
        await built.call(id=id_)
    assert asked == [("own", "act"), ("engine", "act"), ("own", "shut"), ("engine", "open")]


async def test_a_rule_sees_the_facts_and_cannot_change_them(world):
    """SI-6: what a rule is handed are copies; what executes is what was validated."""
    seen = []

    def rule(request):
        seen.append((request.surface, request.actor, request.deps, dict(request.arguments)))
        request.input["items"].append("smuggled")
        request.arguments["items"].append("smuggled")
        return True

    async def take(items: list[str]) -> list[str]:
        return items

    built = world(deps="deps").add(handler=take, access=rule)
    outcome = await built.call({"items": ["a"]}, actor=DANA)
    assert seen[0][:3] == ("direct", DANA, "deps")
    assert outcome.output == ["a"]


async def test_a_rule_under_a_prefix_gets_the_effective_id(world):
    """What the engine calls it (reference B 161)."""
    library, seen = Library("lib", "1"), []

    def rule(request):
        seen.append(request.capability_id)
        return True

    @library.capability("act", access=rule)
    async def act() -> None:
        """Act."""

    built = world()
    built.engine.include(library, prefix="p", remap={"act": "do"})
    await built.call(id="p.do")
    assert seen == ["p.do"]
