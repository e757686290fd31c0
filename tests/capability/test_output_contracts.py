"""What may come out, and what stays as the handler returned it."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, computed_field, field_validator
from typing_extensions import TypedDict

from capgate import ConfigurationError


class Row(BaseModel):
    id: str
    total: int


class Keys(TypedDict):
    id: str
    total: int


@dataclasses.dataclass
class Data:
    id: str
    total: int


@pytest.mark.parametrize("kind", [Row, Keys, Data])
def test_rows_are_typed_in_process_and_json_outside(accepts, kind):
    """The result is what the annotation says; its dump is plain JSON."""
    made = accepts(list[kind])
    for returned in ([{"id": "a", "total": 1}], [kind(id="a", total=1)]):
        output = made.validate_output(returned)
        assert output == [kind(id="a", total=1)]
        assert made.dump_output(output) == [{"id": "a", "total": 1}]


@pytest.mark.parametrize("kind", [Row, Data])
def test_an_instance_that_was_never_checked_is_checked(accepts, issues, kind):
    """model_construct, a later assignment or a loose dataclass do not slip through."""
    bad = Row.model_construct(id="a", total="x") if kind is Row else Data("a", "x")
    assert issues(accepts(list[kind]).validate_output, [bad]) == [
        {"path": "0.total", "message": "Expected an integer."}
    ]


def test_none_is_no_missing_output(accepts, issues):
    """None is a value like any other: only a contract of null accepts it."""
    assert issues(accepts(int).validate_output, None)[0]["message"] == "Expected an integer."
    assert accepts(int | None).validate_output(None) is None


class Money(BaseModel):
    cents: int

    @field_validator("cents")
    @classmethod
    def to_cents(cls, value):
        return value * 100


class Late(BaseModel):
    cents: int

    def model_post_init(self, context):
        self.cents *= 100


@dataclasses.dataclass
class Posted:
    cents: int

    def __post_init__(self):
        self.cents *= 100


@pytest.mark.parametrize("kind", [Money, Late, Posted])
@pytest.mark.parametrize("listed", [False, True])
def test_an_instance_is_delivered_as_it_was_returned(accepts, kind, listed):
    """Validators an instance went through when it was made do not change it again."""
    made = accepts(list[kind] if listed else kind | None)
    own = kind(cents=5)
    output = made.validate_output([own] if listed else own)
    got = output[0] if listed else output
    assert got.cents == own.cents == 500
    assert got is not own


@pytest.mark.parametrize("kind", [Money, Late, Posted, Annotated[int, AfterValidator(abs)]])
def test_plain_data_goes_through_the_validators_once(accepts, kind):
    """Data that is no instance yet is transformed once, also across a restore from JSON."""
    made = accepts(list[kind])
    raw = -500 if kind not in (Money, Late, Posted) else {"cents": 5}
    output = made.validate_output([raw])
    stored = made.dump_output(output)
    assert "500" in str(stored)
    assert made.restore_output(stored) == output


def test_a_stored_output_that_needs_the_ordinary_way_gets_it(accepts, issues):
    """Computed fields are in the stored JSON and no part of the value; wrong JSON is refused."""

    class Sum(BaseModel):
        a: int

        @computed_field
        @property
        def double(self) -> int:
            return self.a * 2

    made = accepts(list[Sum])
    stored = made.dump_output(made.validate_output([Sum(a=1)]))
    assert stored == [{"a": 1, "double": 2}]
    assert made.restore_output(stored) == [Sum(a=1)]
    assert issues(made.restore_output, [{"a": "x"}])


def test_the_output_schema_is_of_what_is_written(accepts):
    """The described output is the serialised form, computed fields included."""

    class Sum(BaseModel):
        a: int = 1

        @computed_field
        @property
        def double(self) -> int:
            return self.a * 2

    assert set(accepts(Sum | None).output_schema["anyOf"][0]) == {"$ref"}
    assert accepts(Sum | None).output_schema["$defs"]["Sum"]["required"] == ["double"]


@pytest.mark.parametrize("schema", [{"type": "integer"}, {"type": "array"}, {}])
def test_an_output_document_may_have_any_root(contract, issues, schema):
    """An output schema's root need not be an object, and its values are plain JSON."""
    made = contract(lambda: None, input_schema={"type": "object"}, output_schema=schema)
    assert made.output_schema == schema
    assert issues(made.validate_output, (1,))[0]["message"] == "Not a JSON value."


def test_a_bad_output_document_is_refused(contract):
    """An output document is checked at registration like an input's."""

    def handler(a: int): ...

    with pytest.raises(ConfigurationError, match="not a JSON Schema"):
        contract(handler, output_schema={"type": 5})


def test_a_document_and_a_signature_can_be_mixed(contract):
    """Either side may be a document while the other comes from the annotations."""

    def handler(a: int) -> Any: ...

    made = contract(handler, output_schema={"type": "integer"})
    assert made.validate_input({"a": "1"}) == {"a": 1}
    assert made.validate_output(5) == 5


def test_validators_that_change_nothing_cost_nothing(accepts):
    """An instance whose validators find it right as it is comes back equal."""

    class Calm(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def keep(cls, value):
            return value

    own = Calm(a=1)
    output = accepts(list[Calm]).validate_output([own])[0]
    assert (output, output is own) == (own, False)


def test_an_instance_inside_a_mapping_is_delivered_as_returned(accepts):
    """The same holds for instances that are the values of a dict."""
    output = accepts(dict[str, Money]).validate_output({"a": Money(cents=5)})
    assert output["a"].cents == 500


class Uncopied(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def keep(cls, value):
        return value

    def __deepcopy__(self, memo=None):
        raise RuntimeError("CANARY")


def test_a_value_that_cannot_be_copied_is_refused(accepts, issues):
    """What cannot be isolated is not delivered."""
    assert issues(accepts(list[Uncopied]).validate_output, [{"a": 1}]) == [
        {"path": "", "message": "Cannot be copied."}
    ]


class Pairs(enum.Enum):
    ONE = (1, 2)


class Numbers(enum.Enum):
    NONE = float("nan")


def test_an_enum_is_judged_by_what_it_writes(accepts, declare):
    """A member is written as its value; a class with a value JSON cannot carry is refused."""
    made = accepts(Pairs | None)
    assert made.dump_output(made.validate_output(Pairs.ONE)) == [1, 2]
    with pytest.raises(ConfigurationError):
        accepts(Numbers | None)
