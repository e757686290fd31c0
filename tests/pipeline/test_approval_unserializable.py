"""What could not be resumed is refused at the gate, never a surprise after the approval."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, PlainSerializer

from capgate import Actor, ApprovalRule, public_error


class Box:
    def __init__(self, value) -> None:
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Box) and other.value == self.value

    __hash__ = None


Boxed = Annotated[
    str, AfterValidator(Box), PlainSerializer(lambda box: box.value if box else "", return_type=str)
]
Forgetful = Annotated[str, PlainSerializer(lambda text: "same", return_type=str)]


class Lossy(BaseModel):
    """Writes less than it holds."""

    text: Forgetful


async def boxed(x: Boxed) -> str:
    return x.value


async def forgetful(x: Forgetful) -> str:
    return x


async def lossy(x: Lossy) -> str:
    return x.text


@pytest.mark.parametrize("handler", [forgetful, lossy])
async def test_a_value_that_would_come_back_different_is_refused_at_the_gate(world, handler):
    """SI-6: the engine proves that it can restore the validated value."""
    built = world().add(handler=handler, approval=ApprovalRule())
    name = "x" if handler is forgetful else "text"
    error = (await built.call({name: "secret"})).error
    assert (error.code, error.stage, error.retryable) == (
        "APPROVAL_UNSERIALIZABLE_INPUT",
        "approval",
        False,
    )
    assert public_error(error)["code"] == "INTERNAL_ERROR"
    assert await built.engine.approvals.find() == []


@pytest.mark.parametrize("handler", [boxed, forgetful])
async def test_without_a_gate_such_a_value_is_no_matter(world, handler):
    """Only what has to be stored must have a form for storing (reference A 35)."""
    assert (await world().add(handler=handler).call({"x": "a"})).output == "a"


async def test_a_value_either_restores_exactly_or_is_refused(world):
    """SI-6: an object made by a validator is never approved as one thing and run as another."""
    built = world().add(handler=boxed, approval=ApprovalRule())
    outcome = await built.call({"x": "a"})
    if outcome.status == "failed":
        assert outcome.error.code == "APPROVAL_UNSERIALIZABLE_INPUT"
    else:
        await built.engine.approvals.approve(outcome.approval.id, by=Actor("u_mia"))
        assert (await built.resume(outcome.approval)).output == "a"


async def test_an_actor_that_cannot_be_stored_is_refused_at_the_gate(world):
    """The record binds the requester: without a form for storing there is no binding."""
    built = world().add(approval=ApprovalRule())
    actor = Actor("u_dana", attributes={"session": Box("x")})
    error = (await built.call(actor=actor)).error
    assert error.code == "APPROVAL_UNSERIALIZABLE_INPUT"
    assert built.ran == []
