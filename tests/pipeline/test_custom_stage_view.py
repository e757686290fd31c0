"""What a custom stage sees of a call, and that it can change nothing but `state`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import pytest
from pydantic import BaseModel

from capgate import (
    Actor,
    ApprovalRule,
    Context,
    Engine,
    Invocation,
    Pipeline,
    Stage,
)
from capgate.pipeline import Authentication, Execution, OutputValidation

DANA = Actor("u_dana", attributes={"org": ["acme"]})
BOSS = Actor("u_boss")


class Calling(Stage):
    """Calls a function with the invocation."""

    def __init__(self, function, name="own", *, on_resume=True):
        self.function = function
        self.name = name
        self.on_resume = on_resume

    def run(self, invocation):
        self.function(invocation)


class Order(BaseModel):
    tags: list[str]


@dataclass
class Parcel:
    tags: list[str]


def engine_of(pipeline, **settings):
    return Engine("test", pipeline=pipeline, **settings)


async def test_a_stage_sees_the_facts_of_its_call():
    """A stage reads ids, capability, surface, actor, deps, arguments and the absent approval."""
    seen = []
    engine = engine_of(Pipeline.default().before("policy", Calling(seen.append)), deps="deps")

    @engine.capability("cap", tags={"money"}, expose={"test"})
    async def cap(n: int) -> None:
        """Do nothing."""

    outcome = await engine.attempt(
        cap, {"n": "7"}, actor=DANA, surface="test", correlation_id="cor_1"
    )
    (view,) = seen
    assert isinstance(view, Invocation)
    assert (view.execution_id, view.correlation_id) == (outcome.execution_id, "cor_1")
    assert (view.capability.id, view.capability.tags) == ("cap", {"money"})
    assert (view.surface, view.actor, view.deps) == ("test", DANA, "deps")
    assert (dict(view.arguments), view.input, view.approval) == ({"n": 7}, {"n": 7}, None)


async def test_before_validation_there_is_no_input():
    """Before the input is validated, `input` is None and `arguments` empty."""
    seen = []
    note = Calling(lambda call: seen.append((call.input, dict(call.arguments))))
    engine = engine_of(Pipeline.default().after("discovery", note))

    @engine.capability("cap")
    async def cap(n: int) -> None:
        """Do nothing."""

    await engine.invoke("cap", {"n": 1}, actor=DANA)
    assert seen == [(None, {})]


@pytest.mark.parametrize("place", [Authentication, Execution, OutputValidation])
@pytest.mark.parametrize(
    "name",
    ["input", "arguments", "actor", "surface", "capability", "deps", "execution_id", "state"],
)
async def test_nothing_of_an_invocation_can_be_set(place, name):
    """A stage cannot set or delete a field of the invocation, nor add one."""
    refused = []

    def meddle(invocation):
        for change in (
            lambda: setattr(invocation, name, "other"),
            lambda: delattr(invocation, name),
            lambda: setattr(invocation, "extra", 1),
        ):
            with pytest.raises(AttributeError):
                change()
        refused.append(name)

    engine = engine_of(Pipeline.default().before(place, Calling(meddle)))

    @engine.capability("cap")
    async def cap(n: int) -> int:
        """Give back."""
        return n

    assert await engine.invoke("cap", {"n": 1}, actor=DANA) == 1
    assert refused == [name]


def meddle(invocation):
    """Change whatever can be changed of the input that a stage is handed."""
    for value in (invocation.input, invocation.arguments):
        tags = value["tags"] if isinstance(value, dict) else getattr(value, "tags", None)
        for each in (tags, invocation.arguments["tags"]):
            with suppress(TypeError, AttributeError):
                each.append("evil")
    with suppress(TypeError):
        invocation.arguments["tags"] = ["evil"]


async def take_model(order: Order) -> list[str]:
    """Give back."""
    return order.tags


async def take_dataclass(parcel: Parcel) -> list[str]:
    """Give back."""
    return parcel.tags


async def take_field(tags: list[str]) -> list[str]:
    """Give back."""
    return tags


@pytest.mark.parametrize("handler", [take_model, take_dataclass, take_field])
async def test_a_stage_cannot_change_the_input_that_executes(handler):
    """Whatever a stage does to its copy, the handler gets what was validated (SI-6)."""
    engine = engine_of(
        Pipeline.default()
        .before("policy", Calling(meddle, "early"))
        .before("execution", Calling(meddle, "late"))
    )
    engine.capability("cap")(handler)
    assert await engine.invoke("cap", {"tags": ["good"]}, actor=DANA) == ["good"]


async def test_a_stage_cannot_change_the_actor_or_the_capability():
    """The actor and the capability's view are immutable, their contents included (SI-3)."""

    def meddle(invocation):
        for target, name in ((invocation.actor, "id"), (invocation.capability, "access")):
            with pytest.raises(AttributeError):
                setattr(target, name, "public")
        with pytest.raises(TypeError):
            invocation.actor.attributes["org"] = ["evil"]
        with pytest.raises(TypeError):
            invocation.capability.input_schema["type"] = "null"
        invocation.actor.attributes["org"].append("evil")

    engine = engine_of(Pipeline.default().before("policy", Calling(meddle)))

    @engine.capability("cap")
    async def cap(ctx: Context) -> str:
        """Name the caller."""
        return ctx.actor.id

    assert await engine.invoke("cap", actor=DANA) == "u_dana"
    assert DANA.attributes["org"] == ["acme"]


async def test_stages_and_the_handler_share_state():
    """`state` is one mapping per call, from the first stage to the handler."""

    def write(invocation):
        invocation.state["seen"] = [invocation.surface]

    def extend(invocation):
        invocation.state["seen"].append("late")

    engine = engine_of(
        Pipeline.default()
        .before("discovery", Calling(write, "first"))
        .before("execution", Calling(extend, "last"))
    )

    @engine.capability("cap")
    async def cap(ctx: Context) -> list[str]:
        """Give the state."""
        return list(ctx.state["seen"])

    assert await engine.invoke("cap", actor=DANA) == ["direct", "late"]
    assert await engine.invoke("cap", actor=DANA) == ["direct", "late"]


@pytest.mark.parametrize("on_resume", [True, False])
async def test_a_stage_may_stand_aside_on_resume(on_resume):
    """Custom stages run again on resume, with the approval, unless `on_resume = False`."""
    seen = []
    note = Calling(lambda call: seen.append((call.approval, call.input)), on_resume=on_resume)
    engine = engine_of(Pipeline.default().before("policy", note))

    @engine.capability("cap", approval=ApprovalRule())
    async def cap(n: int) -> int:
        """Give back."""
        return n

    asked = (await engine.attempt("cap", {"n": 1}, actor=DANA)).approval
    await engine.approvals.approve(asked.id, by=BOSS)
    assert await engine.resume(asked.id) == 1
    assert [each and each.id for each, _ in seen] == [None, asked.id][: 1 + on_resume]
    assert {each["n"] for _, each in seen} == {1}


async def test_a_stage_that_refuses_on_resume_does_not_burn_the_approval():
    """What a stage refuses on resume leaves the approval usable."""
    closed = []

    def judge(invocation):
        if invocation.approval is not None and not closed:
            closed.append(1)
            raise ValueError

    engine = engine_of(
        Pipeline.default().before("execution", Calling(judge)), on_internal_error=lambda _: None
    )

    @engine.capability("cap", approval=ApprovalRule())
    async def cap(n: int) -> int:
        """Give back."""
        return n

    asked = (await engine.attempt("cap", {"n": 1}, actor=DANA)).approval
    await engine.approvals.approve(asked.id, by=BOSS)
    assert (await engine.attempt_resume(asked.id)).error.code == "POLICY_FAILED"
    assert await engine.resume(asked.id) == 1
