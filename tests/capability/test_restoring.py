"""What executes is what was approved: stored values come back without being validated again."""

from __future__ import annotations

import dataclasses
import enum
import uuid
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PlainValidator,
    SecretStr,
    WrapValidator,
    computed_field,
    field_validator,
    model_validator,
)

from capgate.capability import ContractViolation

HUNDREDFOLD = [
    Annotated[int, AfterValidator(lambda v: v * 100)],
    Annotated[int, BeforeValidator(lambda v: v * 100)],
    Annotated[int, WrapValidator(lambda v, inner: inner(v) * 100)],
    Annotated[int, PlainValidator(lambda v: v * 100)],
    Annotated[int, Field(le=10), AfterValidator(lambda v: v * 100)],
    Annotated[int, AfterValidator(lambda v: v * 10), AfterValidator(lambda v: v * 10)],
]


@pytest.mark.parametrize("kind", HUNDREDFOLD)
def test_a_multiplying_validator_is_not_applied_twice(accepts, kind):
    """SI-5: an approved 500 restores as 500 and never as 50000 (reference A 127)."""
    made = accepts(kind)
    value = made.validate_input({"x": 5})
    stored = made.prove_input(value)
    assert (value, stored) == ({"x": 500}, {"x": 500})
    assert made.restore_input(stored) == {"x": 500}


def test_text_that_became_a_number_restores(accepts):
    """SI-5: a validator that changes the type does not block the resume (reference A 128)."""
    for place in (BeforeValidator, AfterValidator):
        made = accepts(Annotated[str if place is AfterValidator else int, place(int)])
        value = made.validate_input({"x": "12"})
        assert made.restore_input(made.prove_input(value)) == {"x": 12}


def test_a_number_that_became_text_restores(accepts):
    """SI-5: text stays text, though the declared type would read it as a number."""
    made = accepts(Annotated[int, AfterValidator(str)])
    value = made.validate_input({"x": 12})
    assert made.restore_input(made.prove_input(value)) == {"x": "12"}


class Order(BaseModel):
    cents: int

    @field_validator("cents")
    @classmethod
    def to_cents(cls, value):
        return value * 100


class Whole(BaseModel):
    cents: int

    @model_validator(mode="after")
    def to_cents(self):
        self.cents *= 100
        return self


class Raw(BaseModel):
    cents: int

    @model_validator(mode="before")
    @classmethod
    def to_cents(cls, data):
        return {"cents": data["cents"] * 100}


class Late(BaseModel):
    cents: int

    def model_post_init(self, context):
        self.cents *= 100


@dataclasses.dataclass
class Line:
    cents: int

    def __post_init__(self):
        self.cents *= 100


@pytest.mark.parametrize("kind", [Order, Whole, Raw, Late, Line])
@pytest.mark.parametrize("nested", [False, True])
def test_models_that_transform_are_not_applied_twice(contract, kind, nested):
    """SI-5: validators and post-init hooks of models and dataclasses run once (reference A 127)."""

    def handler(x, y: int = 1): ...

    if not nested:
        handler = lambda x: None  # noqa: E731
        handler.__annotations__ = {"x": kind, "return": None}
    else:
        handler.__annotations__ = {"x": list[kind], "y": int, "return": None}
    made = contract(handler)
    value = made.validate_input({"x": [{"cents": 5}]} if nested else {"cents": 5})
    restored = made.restore_input(made.prove_input(value))
    assert (restored["x"][0] if nested else restored).cents == 500
    assert restored == value


class Color(enum.Enum):
    RED = "r"


class Aliased(BaseModel):
    order_id: str = Field(alias="orderId")
    other: int = Field(1, validation_alias="a", serialization_alias="b")


class Computed(BaseModel):
    a: int

    @computed_field
    @property
    def double(self) -> int:
        return self.a * 2


class Hidden(BaseModel):
    a: int = 0
    secret: int = Field(0, exclude=True)


EXACT = [
    (str, "123"),
    (str, "null"),
    (str, "a\x00b"),
    (str, ""),
    (int, 2**70),
    (int, -(10**300)),
    (float, -0.0),
    (float, 5),
    (bool, True),
    (int | str, "5"),
    (Any, {}),
    (Any, {"a": [None, 1.5, "2", True, {}]}),
    (Decimal, "49.00"),
    (datetime, "2026-01-01T00:00:00+02:00"),
    (uuid.UUID, "02f39aae-872e-4360-8d2a-cafcc1adb464"),
    (Color, "r"),
    (set[str], ["c", "a", "b"]),
    (tuple[int, ...], [1, 2]),
    (dict[int, Decimal], {1: "1.10"}),
    (Path, "/tmp/x"),
    (bytes, "abc"),
    (Aliased | None, {"orderId": "x", "a": 2}),
    (Computed | None, {"a": 2}),
    (Hidden | None, {"a": 2, "secret": 7}),
    (int | None, None),
]


@pytest.mark.parametrize(("kind", "sent"), EXACT)
def test_values_restore_exactly(accepts, kind, sent):
    """SI-5: look-alikes, NUL, huge integers and typed values come back as they were (A 297)."""
    made = accepts(kind)
    value = made.validate_input({"x": sent})
    restored = made.restore_input(made.prove_input(value))
    assert restored == value
    assert type(restored["x"]) is type(value["x"])
    assert str(made.dump_input(restored)) == str(made.dump_input(value))


def test_no_input_restores(contract):
    """SI-5: no input and an empty object store and restore unchanged (reference A 87)."""

    def nothing() -> None: ...
    def open_object(payload: dict): ...

    for options in ({}, {"input_schema": {"type": "object"}, "output_schema": {}}):
        made = contract(open_object if options else nothing, **options)
        assert made.restore_input(made.prove_input(made.validate_input(None))) == {}


@pytest.mark.parametrize("kind", [SecretStr, dict[str, SecretStr]])
def test_what_is_lost_in_json_cannot_be_approved(accepts, issues, kind):
    """SI-5: a value whose JSON form hides part of it is refused at the gate, not at the resume."""
    made = accepts(kind)
    value = made.validate_input({"x": "CANARY" if kind is SecretStr else {"a": "CANARY"}})
    found = issues(made.prove_input, value)
    assert found == [{"path": "", "message": "The stored value cannot be restored."}]


def test_an_excluded_field_is_part_of_what_is_approved(accepts):
    """SI-5: two inputs that differ in a field excluded from dumps have different stored forms."""
    made = accepts(Hidden | None)
    stored = [
        made.dump_input(made.validate_input({"x": {"a": 1, "secret": secret}})) for secret in (1, 2)
    ]
    assert stored[0] != stored[1]


def test_an_ambiguous_union_is_refused_at_the_gate(accepts):
    """SI-5: a value that would come back as another type is not provable."""
    made = accepts(datetime | str)
    value = made.validate_input({"x": datetime.fromisoformat("2026-01-01T00:00:00")})
    with pytest.raises(ContractViolation):
        made.prove_input(value)


def test_tampered_or_foreign_json_does_not_restore(accepts):
    """SI-5: stored JSON that no value of the contract dumps to is refused."""
    made = accepts(int)
    for stored in ({"x": "5"}, {"x": 5, "z": 1}, {}, [], None, {"x": 5.5}):
        with pytest.raises(ContractViolation):
            made.restore_input(stored)


def test_a_set_is_written_in_one_order(accepts):
    """SI-5: the JSON form of a set does not depend on the process that writes it."""
    words = [f"w{n}" for n in range(50)]
    made = accepts(set[str])
    assert made.dump_input(made.validate_input({"x": words})) == {"x": sorted(words)}


def test_what_is_no_json_does_not_restore(accepts):
    """SI-5: a store that gives back what was never JSON gets a refusal and no crash."""
    for stored in ({"x": float("nan")}, {"x": object()}, {1: 2}, "\ud800"):
        with pytest.raises(ContractViolation):
            accepts(Any).restore_input(stored)


def test_a_restored_value_is_isolated_too(accepts):
    """SI-6: what a validator keeps is not handed out on a resume either."""
    kept = ["shared"]
    made = accepts(Annotated[list[str], AfterValidator(lambda _: kept)])
    made.restore_input({"x": ["shared"]})["x"].append("b")
    assert kept == ["shared"]


class Unequal(BaseModel):
    a: int

    def __eq__(self, other):
        raise RuntimeError("CANARY")

    __hash__ = None


def test_a_value_that_cannot_be_compared_cannot_be_approved(accepts, issues):
    """SI-5: where nobody can tell that a value came back, the gate refuses."""
    made = accepts(Unequal | None)
    found = issues(made.prove_input, made.validate_input({"x": {"a": 1}}))
    assert found == [{"path": "", "message": "The stored value cannot be restored."}]
