"""Unknown, unexposed and hidden: one face outside, the truth in the audit."""

from __future__ import annotations

import pickle

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalRule,
    CancelToken,
    Failed,
    Limits,
    allow,
    deny,
    hide,
    policy,
    public_error,
    require_approval,
    requires,
)

INPUTS = [None, {"n": 1}, {"n": "secret"}, {"wrong": 1}, "not an object", object(), [float("nan")]]
DANA = Actor("u_dana")
BROKEN = object.__new__(Actor)
ACTORS = [None, DANA, Actor.anonymous(), BROKEN, "u_dana"]


@policy("curtain", phases={"discovery"})
def curtain(request):
    return hide() if request.capability.id == "hidden" else allow()


@pytest.fixture
def stage(world):
    """An engine that hides one capability, exposes one elsewhere, and lacks the rest."""

    def build(**fields):
        built = world(policies=[curtain], **fields.pop("settings", {}))
        return built.add("hidden", **fields).add("elsewhere", expose={"test"}, **fields)

    return build


async def faces(built, input, **options):
    """What each of the three looks like from outside."""
    seen = []
    for id_ in ("missing", "elsewhere", "hidden"):
        outcome = await built.call(input, id=id_, **options)
        assert isinstance(outcome, Failed)
        error = outcome.error
        unnamed = (error.code, error.details, error.retryable, str(error), outcome.effect)
        seen.append((pickle.dumps(public_error(error)), unnamed))
    return seen


@pytest.mark.parametrize("actor", ACTORS, ids=["none", "dana", "anonymous", "broken", "text"])
@pytest.mark.parametrize("input", INPUTS, ids=lambda value: type(value).__name__)
async def test_three_kinds_of_missing_look_the_same(stage, input, actor):
    """SI-8: byte-identical for any input and any caller (reference A 15, 17, 18)."""
    seen = await faces(stage(), input, actor=actor)
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("access", ["public", "authenticated", requires("root"), lambda r: False])
async def test_the_access_rule_does_not_shine_through(stage, access):
    """SI-8: whatever protects a hidden capability, it is missing first."""
    seen = await faces(stage(access=access), {"bad": 1}, actor=None)
    assert seen[0] == seen[1] == seen[2]


async def test_a_hidden_capability_does_not_ask_for_approval(stage):
    """SI-8: the gate of a hidden capability is hidden too."""
    seen = await faces(stage(approval=ApprovalRule()), None)
    assert seen[0] == seen[1] == seen[2]


async def test_an_idempotency_key_reveals_nothing(stage):
    """SI-8: a key used on what is missing is never claimed, nor refused."""
    built = stage()
    first = await faces(built, None, idempotency_key="k")
    again = await faces(built, {"n": 2}, idempotency_key="k")
    assert first == again
    assert first[0] == first[1] == first[2]


async def test_a_fired_token_reveals_nothing(stage):
    """SI-8: a call that was stopped before it began tells no more than any other."""
    token = CancelToken()
    token.cancel()
    built = stage()
    outcomes = [
        await built.call(None, id=id_, cancel=token) for id_ in ("missing", "elsewhere", "hidden")
    ]
    told = [(type(each), public_error(each.error)) for each in outcomes]
    assert told[0] == told[1] == told[2]


async def test_a_fired_token_reveals_nothing_under_an_async_policy(world):
    """SI-8: nor does a discovery policy that has to be awaited."""

    @policy("slow-curtain", phases={"discovery"})
    async def slow(request):
        await anyio.lowlevel.checkpoint()
        return hide()

    token = CancelToken()
    token.cancel()
    built = world(policies=[slow]).add("hidden")
    outcomes = [await built.call(None, id=id_, cancel=token) for id_ in ("missing", "hidden")]
    told = [(type(each), public_error(each.error)) for each in outcomes]
    assert told[0] == told[1]


async def test_refused_credentials_reveal_nothing(world):
    """SI-8: credentials that a discovery policy made us resolve are judged later."""

    async def authenticate(credentials):
        return None

    built = world(policies=[curtain], authenticate=authenticate).add("hidden")
    seen = [
        public_error((await built.call(id=id_, actor=None, credentials="x")).error)
        for id_ in ("missing", "hidden")
    ]
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("id", "reason"), [("missing", "unknown"), ("elsewhere", "not-exposed"), ("hidden", "hidden")]
)
async def test_the_audit_has_the_true_reason(stage, id, reason):
    """SI-8: the operator can tell them apart; even a probe of an unknown id leaves evidence."""
    built = stage()
    await built.call(id=id)
    assert built.told() == ["requested", "denied"]
    assert built.last()["reason"] == reason
    assert built.last()["public_code"] == "CAPABILITY_NOT_FOUND"
    assert built.audit.events[0].capability_id == id


def raising(request):
    raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda r: hide(), "hidden"),
        (lambda r: deny("Go away."), "policy-denied"),
        (raising, "policy-failed"),
        (lambda r: None, "policy-failed"),
    ],
    ids=["hide", "deny", "raise", "nonsense"],
)
async def test_whatever_refuses_at_discovery_conceals(world, answer, reason):
    """SI-7, SI-8: hide, deny and a broken policy all look like a missing capability."""
    built = world(policies=[policy("judge", phases={"discovery"})(answer)]).add()
    missing = await built.call(id="missing")
    outcome = await built.call({"bad": 1})
    assert public_error(outcome.error) == public_error(missing.error)
    assert built.last()["reason"] == reason


async def test_a_discovery_policy_that_hangs_conceals(world):
    """SI-7, SI-12: out of time is refused, and looks like missing."""

    @policy("judge", phases={"discovery"})
    async def hang(request):
        await anyio.sleep_forever()

    built = world(policies=[hang], limits=Limits(policy_timeout=0.01)).add()
    outcome = await built.call()
    assert outcome.error.code == "CAPABILITY_NOT_FOUND"
    assert built.last()["reason"] == "policy-failed"


async def test_a_broken_policy_does_not_unmask_a_hidden_capability(world):
    """SI-8: hide wins over error in the invocation phase too (reference A 19)."""
    built = world(policies=[policy("broken")(raising), policy("curtain")(lambda r: hide())]).add()
    missing, outcome = await built.call(id="missing"), await built.call()
    assert public_error(outcome.error) == public_error(missing.error)
    assert built.last()["reason"] == "hidden"
    decisions = [each["decision"] for each in built.last()["policy_decisions"]]
    assert decisions == ["error", "hide"]


async def test_a_requirement_at_discovery_means_nothing_to_a_call(world):
    """`require_approval` in the discovery phase flags the listing; it gates no call."""
    ask = policy("ask", phases={"discovery"})(lambda r: require_approval("Because."))
    built = world(policies=[ask]).add()
    assert (await built.call({"n": 2})).output == 2


async def test_discovery_is_never_authorization(world):
    """SI-2: what was listed is judged again, and what was hidden is refused when it is called."""
    seen = {"visible": True}

    @policy("moody", phases={"discovery"})
    def moody(request):
        return allow() if seen["visible"] else hide()

    built = world(policies=[moody]).add()
    assert [each.id for each in await built.engine.discover("direct", actor=DANA)] == ["act"]
    seen["visible"] = False
    assert (await built.call()).error.code == "CAPABILITY_NOT_FOUND"
    assert built.ran == []


@pytest.mark.parametrize("surface", ["nowhere", "", "DIRECT"])
async def test_an_unheard_of_surface_sees_nothing(world, surface):
    """SI-1: deny by default, without a crash (reference A 14)."""
    built = world().add()
    outcome = await built.call(surface=surface)
    assert outcome.error.code == "CAPABILITY_NOT_FOUND"
    assert built.last()["reason"] == "not-exposed"


@pytest.mark.parametrize("id", ["constructor", "__class__", "", "a" * 10_000, "act\x00"])
async def test_odd_ids_are_merely_unknown(world, id):
    """An id is looked up, never interpreted (reference B 29)."""
    assert (await world().add().call(id=id)).error.code == "CAPABILITY_NOT_FOUND"
