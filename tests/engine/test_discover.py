"""The discovery walk: what a caller may see on a surface, in order of registration."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalRule,
    CapabilityError,
    DiscoveryScope,
    Engine,
    Limits,
    allow,
    deny,
    hide,
    policy,
    public_error,
    require_approval,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana", permissions={"see"})
ANNA = Actor("u_anna")


def add(engine, name, **fields):
    """Register a capability that does nothing."""

    async def cap(n: int = 0) -> int:
        """Do nothing."""
        return n

    return engine.capability(name, **fields)(cap)


def rule(function, name="rule", *phases):
    return policy(name, phases=set(phases) or {"discovery"})(function)


def catalogue(**settings):
    """Build an engine with several capabilities on two surfaces."""
    engine = Engine("test", **settings)
    both = {"direct", "test"}
    add(engine, "orders.refund", tags={"orders", "money"}, expose=both, title="Refund")
    add(engine, "orders.get", tags={"orders"}, side_effect="read", risk="low")
    add(engine, "users.get", tags={"users"}, expose=both)
    add(engine, "plain", expose=both)
    add(engine, "only.test", expose={"test"})
    add(engine, "staged", expose=set())
    return engine


async def ids(engine, surface="direct", **options):
    return [each.id for each in await engine.discover(surface, **options)]


async def test_a_walk_follows_exposure_and_registration_order():
    """A surface lists what is exposed on it, in the order of registration."""
    engine = catalogue()
    assert await ids(engine) == ["orders.refund", "orders.get", "users.get", "plain"]
    assert await ids(engine, "test") == ["orders.refund", "users.get", "plain", "only.test"]
    assert await ids(engine, "mcp") == await ids(engine, "nowhere") == []


async def test_a_descriptor_has_the_promised_fields():
    """A descriptor has its facts and schemas, deep-frozen."""
    found = (await catalogue().discover("direct", actor=DANA))[1]
    assert (found.id, found.description) == ("orders.get", "Do nothing.")
    assert (found.side_effect, found.risk, found.tags) == ("read", "low", {"orders"})
    assert found.input_schema["properties"]["n"]["type"] == "integer"
    assert found.output_schema["type"] == "integer"
    assert found.requires_approval is False
    with pytest.raises(AttributeError):
        found.id = "other"
    with pytest.raises(TypeError):
        found.input_schema["properties"]["n"]["type"] = "string"


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (DiscoveryScope(), ["orders.refund", "orders.get", "users.get", "plain"]),
        (DiscoveryScope(tags=["orders"]), ["orders.refund", "orders.get"]),
        (DiscoveryScope(tags=["money", "users"]), ["orders.refund", "users.get"]),
        (DiscoveryScope(ids=["plain", "users.get"]), ["users.get", "plain"]),
        (DiscoveryScope(tags=["money"], ids=["plain"]), ["orders.refund", "plain"]),
        (DiscoveryScope(tags=[]), []),
        (DiscoveryScope(ids=[]), []),
        (DiscoveryScope(tags=[], ids=["plain"]), ["plain"]),
        (DiscoveryScope(ids=["only.test", "staged", "nope", "PLAIN"]), []),
        (DiscoveryScope(tags={"order"}), []),
    ],
)
async def test_a_scope_narrows(scope, expected):
    """Tags are any-of, ids exact, both a union; an empty list matches nothing, no list all."""
    assert await ids(catalogue(), scope=scope) == expected


async def test_a_scope_is_applied_before_any_policy():
    """Policies are asked about what is in the scope only, and scope is no authority."""
    asked = []

    @policy("notes", phases={"discovery"})
    def notes(request):
        asked.append(request.capability.id)
        return hide() if request.capability.id == "plain" else allow()

    engine = catalogue(policies=[notes])
    assert await ids(engine, scope=DiscoveryScope(ids=["users.get", "plain"])) == ["users.get"]
    assert asked == ["users.get", "plain"]
    assert await engine.invoke("orders.refund", {"n": 1}, actor=DANA) == 1


@pytest.mark.parametrize("junk", ["orders", 3, [3], [None], b"orders", {"a": 1}.items])
@pytest.mark.parametrize("field", ["tags", "ids"])
def test_a_malformed_scope_is_refused_at_once(field, junk):
    """A scope that is no collection of str is a TypeError when it is made."""
    with pytest.raises(TypeError):
        DiscoveryScope(**{field: junk})


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("answer", "listed", "gated"),
    [
        (allow(), True, False),
        (require_approval("Ask."), True, True),
        (deny(), False, None),
        (hide(), False, None),
        (None, False, None),
        (ValueError("secret"), False, None),
    ],
)
async def test_each_answer_has_its_consequence(answer, listed, gated, asynchronous):
    """Deny, hide and error exclude; require-approval annotates; allow lists."""

    def judge(request):
        if request.capability.id != "cap":
            return allow()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def judge_later(request):
        await anyio.lowlevel.checkpoint()
        return judge(request)

    engine = Engine("test")
    add(engine, "first")
    add(engine, "cap", policies=[rule(judge_later if asynchronous else judge)])
    add(engine, "last")
    found = await engine.discover("direct", actor=DANA)
    expected = ["first", "cap", "last"] if listed else ["first", "last"]
    assert [each.id for each in found] == expected
    if listed:
        assert found[1].requires_approval is gated


async def test_a_capabilitys_own_rule_is_annotated():
    """A capability with an approval rule is listed as requiring approval."""
    engine = Engine("test")
    add(engine, "cap", approval=ApprovalRule())
    assert (await engine.discover("direct"))[0].requires_approval is True


async def test_policies_of_other_phases_are_not_asked():
    """Only policies of the discovery phase judge a walk; they see no input."""
    seen = []

    def note(request):
        seen.append((request.phase, request.input, dict(request.arguments), request.surface))
        return allow()

    engine = Engine("test", policies=[rule(note, "a"), rule(note, "b", "invocation", "execution")])
    add(engine, "cap")
    await engine.discover("direct", actor=DANA)
    assert seen == [("discovery", None, {}, "direct")]


async def test_each_actor_sees_its_own_catalogue():
    """Policies judge the actor of the walk: two actors see two lists, nobody is anonymous."""
    seen = []

    def permits(request):
        seen.append(request.actor.kind)
        return allow() if "see" in request.actor.permissions else hide()

    engine = Engine("test")
    add(engine, "open")
    add(engine, "closed", policies=[rule(permits)])
    assert await ids(engine, actor=DANA) == ["open", "closed"]
    assert await ids(engine, actor=ANNA) == ["open"]
    assert await ids(engine) == ["open"]
    assert seen == ["user", "user", "anonymous"]


async def test_deps_reach_discovery_policies():
    """`deps=` of the walk is what policies see."""
    seen = []

    def note(request):
        seen.append(request.deps)
        return allow()

    engine = Engine("test", policies=[rule(note)], deps="engine's")
    add(engine, "cap")
    await engine.discover("direct", actor=DANA, deps="own")
    await engine.discover("direct", actor=DANA)
    assert seen == ["own", "engine's"]


async def test_what_is_hidden_is_refused_too():
    """A capability hidden at discovery is refused at invoke as if it were missing (SI-2, SI-8)."""
    engine = Engine("test", policies=[rule(lambda request: hide())])
    add(engine, "cap")
    assert await ids(engine, actor=DANA) == []
    replies = [
        public_error((await engine.attempt(name, payload, actor=DANA)).error)
        for name in ("cap", "nope")
        for payload in ({}, {"n": "x"}, "junk")
    ]
    assert all(reply == replies[0] for reply in replies)


async def test_what_is_listed_is_judged_again():
    """Listing is never authorization: each call is judged again (SI-2)."""
    answers = [allow(), hide()]
    engine = Engine("test", policies=[rule(lambda request: answers.pop(0))])
    add(engine, "cap")
    assert await ids(engine, actor=DANA) == ["cap"]
    with pytest.raises(CapabilityError, match="CAPABILITY_NOT_FOUND"):
        await engine.invoke("cap", actor=DANA)


@pytest.mark.parametrize("junk", ["u_dana", 3, {"id": "x"}, object()])
async def test_a_malformed_actor_is_refused(junk):
    """A walk for what is no Actor is UNAUTHENTICATED or a TypeError, never a list."""
    with pytest.raises((CapabilityError, TypeError)) as caught:
        await catalogue().discover("direct", actor=junk)
    assert getattr(caught.value, "code", "UNAUTHENTICATED") == "UNAUTHENTICATED"


@pytest.mark.parametrize("junk", [None, 3, b"direct", ["direct"]])
async def test_a_malformed_surface_or_scope_is_a_type_error(junk):
    """A surface that is no str, or a scope that is none, is a TypeError at once."""
    with pytest.raises(TypeError):
        await catalogue().discover(junk, actor=DANA)
    if junk is not None:
        with pytest.raises(TypeError):
            await catalogue().discover("direct", actor=DANA, scope=junk)


async def test_credentials_name_the_actor_of_a_walk():
    """`credentials=` is resolved by the authenticator; refused credentials are UNAUTHENTICATED."""

    async def authenticate(credentials):
        return DANA if credentials == "good" else None

    engine = Engine(
        "test",
        authenticate=authenticate,
        policies=[rule(lambda request: allow() if request.actor == DANA else hide())],
        limits=Limits(policy_concurrency=1),
        audit=MemoryAudit(),
    )
    add(engine, "cap")
    assert await ids(engine, credentials="good") == ["cap"]
    with pytest.raises(CapabilityError, match="UNAUTHENTICATED"):
        await engine.discover("direct", credentials="bad")
    with pytest.raises(TypeError):
        await engine.discover("direct", credentials="good", actor=DANA)
    with pytest.raises(TypeError):
        await Engine("plain").discover("direct", credentials="good")
