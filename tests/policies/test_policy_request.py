"""What a policy is told: the facts of the call, as copies that it cannot change."""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType

import pytest
from pydantic import BaseModel

from capgate import Actor, Engine, allow, policy

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
DANA = Actor("u_dana")


@pytest.fixture
def seen():
    """The requests that `spy` got."""
    return []


@pytest.fixture
def spy(seen):
    """Make a policy that keeps a snapshot of each request."""

    def build(*phases):
        @policy("spy", phases=set(phases) or {"invocation"})
        def look(request):
            seen.append(
                {
                    "phase": request.phase,
                    "id": request.capability.id,
                    "surface": request.surface,
                    "actor": request.actor,
                    "deps": request.deps,
                    "input": request.input,
                    "arguments": dict(request.arguments),
                    "approval": request.approval,
                    "correlation_id": request.correlation_id,
                    "now": request.now,
                    "dry_run": request.dry_run,
                }
            )
            return allow()

        return look

    return build


async def test_a_policy_sees_the_facts_of_the_call(court, spy, seen):
    """Validated input, the actor, deps, the surface and the engine's clock (reference A 54)."""
    await court(spy(), deps="deps").judge({"n": "7"}, correlation_id="cor")
    assert seen == [
        {
            "phase": "invocation",
            "id": "act",
            "surface": "direct",
            "actor": DANA,
            "deps": "deps",
            "input": {"n": 7},
            "arguments": {"n": 7},
            "approval": None,
            "correlation_id": "cor",
            "now": NOON,
            "dry_run": False,
        }
    ]


async def test_each_phase_asks_once_and_says_which_it_is(court, spy, seen):
    """In order; at discovery there is no input yet (reference A 66, 67, 71)."""
    await court(spy("discovery", "invocation", "execution")).judge({"n": 7})
    assert [(each["phase"], each["input"]) for each in seen] == [
        ("discovery", None),
        ("invocation", {"n": 7}),
        ("execution", {"n": 7}),
    ]
    assert [each["arguments"] for each in seen] == [{}, {"n": 7}, {"n": 7}]


async def test_the_default_phase_is_invocation_and_runs_once(court, spy, seen):
    """No phase is asked twice (reference A 66)."""
    await court(spy()).judge()
    assert len(seen) == 1


async def test_a_dry_run_says_so(court, spy, seen):
    """Under `explain` nothing may be consumed, and a policy can tell."""
    built = court(spy("discovery", "invocation"))
    await built.engine.explain("act", actor=DANA)
    assert [each["dry_run"] for each in seen] == [True, True]


async def test_a_policy_sees_what_kind_of_capability_it_judges():
    """The view has what rules are written about, read-only."""
    views = []
    engine = Engine(
        "test", policies=[policy("spy")(lambda r: views.append(r.capability) or allow())]
    )

    @engine.capability("act", side_effect="read", risk="low", tags={"t"}, expose={"direct", "mcp"})
    async def act() -> None:
        """Act."""

    await engine.invoke("act", actor=DANA)
    (view,) = views
    assert (view.side_effect, view.risk, view.tags, view.expose) == (
        "read",
        "low",
        {"t"},
        {"direct", "mcp"},
    )
    with pytest.raises(AttributeError):
        view.risk = "critical"


async def test_a_request_cannot_be_written(court):
    """SI-6: it is a view."""
    refused = []

    @policy("writer")
    def write(request):
        for name in ("input", "actor", "dry_run", "phase", "anything"):
            try:
                setattr(request, name, "smuggled")
            except (AttributeError, TypeError):
                refused.append(name)
        return allow()

    await court(write).judge()
    assert set(refused) >= {"input", "actor", "dry_run", "anything"}


class Order(BaseModel):
    items: list[str]


@pytest.mark.parametrize("phase", ["invocation", "execution"])
async def test_no_policy_rewrites_the_input(phase):
    """SI-6: what was validated is what executes (reference A 65; B 133)."""

    @policy("vandal", phases={phase})
    def vandal(request):
        request.input.items.append("smuggled")
        request.arguments["items"].append("smuggled")
        return allow()

    engine = Engine("test", policies=[vandal, policy("spy", phases={phase})(check)])

    @engine.capability("act")
    async def act(order: Order) -> list[str]:
        """Act."""
        return order.items

    assert await engine.invoke(act, {"items": ["a"]}, actor=DANA) == ["a"]


def check(request):
    assert request.input.items == ["a"]
    assert request.arguments["items"] == ["a"]
    return allow()


async def test_arguments_are_read_only(court):
    """The same mapping for every kind of contract, and nobody can add to it."""
    kinds = []
    spy = policy("spy")(lambda r: kinds.append(type(r.arguments)) or allow())
    await court(spy).judge({"n": 1})
    assert kinds == [MappingProxyType]


async def test_the_actor_of_a_policy_is_not_the_callers_object(court):
    """SI-3: what the policy does to attributes does not reach the handler."""
    actor = Actor("u_dana", attributes={"roles": ["clerk"]})

    @policy("vandal")
    def vandal(request):
        request.actor.attributes["roles"].append("admin")
        return allow()

    built = court(vandal)
    await built.engine.attempt("act", actor=actor)
    assert actor.attributes["roles"] == ["clerk"]


async def test_a_repr_holds_no_input(court):
    """SI-10: a request may be logged."""
    shown = []
    await court(policy("spy")(lambda r: shown.append(repr(r)) or allow())).judge({"n": 987654})
    assert "987654" not in shown[0]
