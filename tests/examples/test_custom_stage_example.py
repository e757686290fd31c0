"""The custom stage of the examples does what it says, in fewer than forty lines."""

import inspect

import pytest

from capgate import Actor, Completed, ErrorCode, Failed
from examples.custom_stage import __main__ as example


@pytest.fixture
def switched_on():
    example.switch.on = True
    yield
    example.switch.on = False


def test_it_is_short():
    """Under forty lines, imports and all."""
    assert len(inspect.getsource(example).splitlines()) < 40


async def test_it_lets_calls_through_while_off():
    """Without the switch the stage changes nothing."""
    example.switch.on = False
    outcome = await example.engine.attempt("notes.add", {"text": "a"}, actor=Actor("u_1"))
    assert isinstance(outcome, Completed)
    assert outcome.output == "noted: a"


@pytest.mark.usefixtures("switched_on")
async def test_it_refuses_writers_while_on():
    """With the switch on, a write is refused by policy and the handler is not entered."""
    outcome = await example.engine.attempt("notes.add", {"text": "a"}, actor=Actor("u_1"))
    assert isinstance(outcome, Failed)
    assert outcome.error.code is ErrorCode.POLICY_DENIED
    assert outcome.error.public_message == "Maintenance: reading only."
