"""What executes is what was approved: the exact value, whatever its contract does to inputs."""

from __future__ import annotations

import dataclasses
import itertools
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, field_validator
from typing_extensions import TypedDict

from capgate import ApprovalRule, input_hash

Hundredfold = Annotated[int, AfterValidator(lambda n: n * 100)]
Parsed = Annotated[int, BeforeValidator(lambda text: int(text) + 1 if text != "" else 0)]
Trimmed = Annotated[str, AfterValidator(lambda text: text[1:])]
TICKET = itertools.count()


class Amount(BaseModel):
    cents: int

    @field_validator("cents")
    @classmethod
    def to_cents(cls, value):
        return value * 100


@dataclasses.dataclass
class Pair:
    left: Hundredfold
    right: str = "r"


class Row(TypedDict):
    amount: Hundredfold


class Colour(Enum):
    RED = "red"


class Ticket(BaseModel):
    number: int = Field(default_factory=lambda: next(TICKET))


class Kinds(BaseModel):
    a: Decimal
    b: datetime
    c: UUID
    d: Colour
    e: bytes
    f: tuple[int, str]
    g: set[int]


def taking(kind):
    async def take(x) -> str:
        return repr(x)

    take.__annotations__ = {"x": kind, "return": str}
    return take


KINDS = {
    "a": "10.50",
    "b": "2026-01-01T00:00:00Z",
    "c": "12345678-1234-5678-1234-567812345678",
    "d": "red",
    "e": "bytes",
    "f": [1, "x"],
    "g": [3, 1, 2],
}
VALUES = [
    (Hundredfold, {"x": 5}),
    (Parsed, {"x": "41"}),
    (Trimmed, {"x": "abc"}),
    (Amount, {"cents": 5}),
    (Pair, {"left": 5}),
    (Row, {"amount": 5}),
    (int, {"x": "7"}),
    (int, {"x": 10**40}),
    (int, {"x": -(2**53) - 1}),
    (float, {"x": -0.0}),
    (float, {"x": 1e300}),
    (float, {"x": 5e-324}),
    (str, {"x": ""}),
    (str, {"x": "hello"}),
    (str, {"x": "123"}),
    (str, {"x": "true"}),
    (str, {"x": "null"}),
    (str, {"x": '{"a": 1}'}),
    (str, {"x": "a\x00b"}),
    (str, {"x": "\U0001f600 \u2028 \ufeff"}),
    (Any, {"x": None}),
    (Any, {"x": {}}),
    (Any, {"x": []}),
    (Any, {"x": {"": [None, True, {"\x00": "\x00"}]}}),
    (Any, {"x": {"$float": "1"}}),
    (int | str | None, {"x": "1"}),
    (int | str | None, {"x": 1}),
    (int | str | None, {"x": None}),
    (Literal["1", 1], {"x": "1"}),
    (Literal["1", 1], {"x": 1}),
    (Kinds, KINDS),
]


@pytest.mark.parametrize(("kind", "input"), VALUES, ids=lambda v: str(v)[:30])
async def test_the_handler_gets_the_approved_value(world, kind, input):
    """SI-5, SI-6: equal, in type too, to what a call without a gate gets (A 127, 128, 297, 298)."""
    handler = taking(kind)
    built = world().add(handler=handler, approval=ApprovalRule()).add("plain", handler=handler)
    ungated = (await built.call(input, id="plain")).output
    outcome = await built.resume(await built.granted(input))
    assert outcome.output == ungated


async def test_an_approved_500_is_not_executed_as_50000(world):
    """SI-6: reference A 127: the caller sends 5, the approver sees 500, 500 executes."""

    async def pay(amount: Hundredfold) -> int:
        return amount

    built = world().add(handler=pay, approval=ApprovalRule())
    record = await built.granted({"amount": 5})
    assert record.shown_input == {"amount": 500}
    assert (await built.resume(record)).output == 500


async def test_a_default_that_changes_is_approved_once(world):
    """SI-6: what the approver saw is what runs, also of a default factory (reference A 38)."""

    async def take(ticket: Ticket) -> int:
        return ticket.number

    built = world().add(handler=take, approval=ApprovalRule())
    record = await built.granted({})
    assert (await built.resume(record)).output == record.input["number"]


@pytest.mark.parametrize("input", [None, {}], ids=["no-input", "empty-object"])
async def test_no_input_is_an_input(world, input):
    """Both are hashable, stored and resumed (reference A 87)."""

    async def ping() -> str:
        return "pong"

    built = world().add(handler=ping, approval=ApprovalRule())
    record = await built.granted(input)
    assert (record.input, record.input_hash) == ({}, input_hash({}))
    assert (await built.resume(record)).output == "pong"


async def test_a_document_contract_resumes_unchanged(world):
    """The same for a contract that is a JSON Schema document."""
    schema = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}

    async def take(data: dict) -> str:
        return repr(data)

    built = world().add(handler=take, input_schema=schema, approval=ApprovalRule())
    record = await built.granted({"n": 10**30, "extra": ["\x00", None]})
    assert (await built.resume(record)).output == repr({"n": 10**30, "extra": ["\x00", None]})


async def test_the_input_is_hashed_on_every_event_of_an_approval(world):
    """SI-5: the request and the execution it leads to carry one hash."""
    built = world().add(approval=ApprovalRule())
    record = await built.granted({"n": 3})
    await built.resume(record)
    hashed = {e.type: e.input_hash for e in built.audit.events if e.input_hash is not None}
    assert set(hashed.values()) == {record.input_hash}
    assert {"capability.approval_requested", "capability.approved"} <= hashed.keys()
    assert {"capability.started", "capability.completed"} <= hashed.keys()


async def test_what_the_caller_changes_while_it_waits_does_not_execute(world):
    """SI-6: the value was captured at validation (reference B 132)."""

    async def take(items: list[str]) -> list[str]:
        return items

    built = world().add(handler=take, approval=ApprovalRule())
    claimed = {"items": ["a"]}
    record = await built.asked(claimed)
    claimed["items"].append("smuggled")
    await built.engine.approvals.approve(record.id, by=type(record.actor)("u_mia"))
    assert (await built.resume(record)).output == ["a"]
