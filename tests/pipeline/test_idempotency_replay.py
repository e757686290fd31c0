"""A replayed outcome: the first one, typed, redacted, judged by today's contract."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, field_validator

from capgate import Actor, Redact
from capgate.idempotency import MemoryIdempotency

DANA, EVE = Actor("u_dana"), Actor("u_eve")


@pytest.fixture
def keep():
    """One store of keys, which outlives an engine."""
    return MemoryIdempotency()


class Doubled(BaseModel):
    amount: int

    @field_validator("amount")
    @classmethod
    def double(cls, value):
        return value * 2


async def test_a_replayed_output_is_the_first_one(world):
    """The stored JSON, typed again; an output's validator is not applied to it twice."""

    async def act() -> Doubled:
        return {"amount": 5}

    built = world().add(handler=act)
    first = await built.call(idempotency_key="k")
    again = await built.call(idempotency_key="k")
    assert again.replayed is True
    assert again.output == first.output


async def test_a_replayed_output_is_redacted(world):
    """What was kept is what the first caller saw, never the true output."""
    built = world().add(redact=Redact(output=lambda n: n + 1000))
    first = await built.call(idempotency_key="k")
    again = await built.call(idempotency_key="k")
    assert (first.output, again.output) == (1001, 1001)


async def test_a_replay_shares_nothing(world):
    """What one caller does to its output, the next does not see."""

    async def act() -> list[str]:
        return ["a"]

    built = world().add(handler=act)
    (await built.call(idempotency_key="k")).output.append("smuggled")
    (await built.call(idempotency_key="k")).output.append("smuggled")
    assert (await built.call(idempotency_key="k")).output == ["a"]


async def test_a_replayed_output_is_judged_by_todays_contract(world, keep):
    """Re-validated from its stored JSON: what no longer fits is withheld."""

    async def before() -> str:
        return "text"

    async def after() -> int:
        return 1

    await world(idempotency=keep).add(handler=before).call(idempotency_key="k")
    built = world(idempotency=keep).add(handler=after)
    outcome = await built.call(idempotency_key="k")
    assert outcome.error.code == "OUTPUT_INVALID"


async def test_a_replay_is_told_as_one(world):
    """One terminal event that says so, and no start."""
    built = world().add()
    await built.call(idempotency_key="k")
    built.audit.clear()
    await built.call(idempotency_key="k")
    assert built.told() == ["requested", "completed"]
    assert built.last()["replayed"] is True
