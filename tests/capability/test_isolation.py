"""Nothing is shared: not with the caller, not with rules, not with the handler (SI-6)."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict
from typing_extensions import TypedDict

OPEN = {"type": "object", "properties": {"x": {}}, "required": ["x"]}


class Item(BaseModel):
    tags: list[str]


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")


@dataclasses.dataclass
class Record:
    tags: list[str]


class Keys(TypedDict):
    tags: list[str]


def tags(value):
    return value["tags"] if isinstance(value, dict) else value.tags


@pytest.mark.parametrize("kind", [Item, Record, Keys])
def test_the_caller_cannot_change_what_was_validated(accepts, kind):
    """SI-6: changing what was sent, nested parts too, changes nothing (reference B 132)."""
    made = accepts(kind | None)
    sent = kind(tags=["a"])
    value = made.validate_input({"x": sent})
    tags(sent).append("b")
    assert tags(value["x"]) == ["a"]


@pytest.mark.parametrize("kind", [Any, dict, dict[str, Any], object, Loose])
@pytest.mark.parametrize("options", [{}, {"input_schema": OPEN}])
def test_open_values_are_captured_too(contract, kind, options):
    """SI-6: what no schema describes in detail is copied all the same (reference B 107)."""

    def handler(x, y: int = 1): ...

    if options:
        del handler.__annotations__["y"]
        handler = lambda x: None  # noqa: E731
    handler.__annotations__ = {"x": kind, "y": int, "return": None}
    sent = {"deep": [{"a": 1}]}
    made = contract(handler, **options)
    value = made.validate_input({"x": sent})
    sent["deep"][0]["a"] = 2
    assert "'a': 1" in str(made.dump_input(value))


@pytest.mark.parametrize("kind", [Item, Record, Keys])
def test_a_copy_changes_nothing_else(accepts, kind):
    """SI-6: rules and policies get copies; changing one leaves the others alone (B 133)."""
    made = accepts(kind | None)
    value = made.validate_input({"x": kind(tags=["a"])})
    copied, arguments, bound = made.copy_input(value), made.arguments(value), made.bind(value)
    for each in (copied, arguments, bound):
        tags(each["x"]).append("b")
    assert tags(value["x"]) == ["a"]
    assert made.bind(value)["x"] == kind(tags=["a"])


def test_arguments_are_read_only(accepts):
    """The mapping of fields that rules see cannot be written to."""
    made = accepts(int)
    with pytest.raises(TypeError):
        made.arguments(made.validate_input({"x": 1}))["x"] = 2


def test_each_binding_is_fresh(accepts):
    """Two attempts of a handler never get the same dict, flat contract or not."""
    for kind, sent in ((int, 1), (list[int], [1])):
        made = accepts(kind)
        value = made.validate_input({"x": sent})
        assert made.bind(value) is not made.bind(value)
        assert made.bind(value) is not value


@pytest.mark.parametrize("kind", [Item, Record, Keys, Any, list[Item]])
def test_the_handlers_object_is_not_the_callers(accepts, kind):
    """SI-6: the result shares nothing with what the handler returned (reference B 138)."""
    made = accepts(kind)
    own = (
        {"tags": ["a"]}
        if kind in (Any, Keys)
        else Record(["a"])
        if kind is Record
        else Item(tags=["a"])
    )
    returned = [own] if kind == list[Item] else own
    output = made.validate_output(returned)
    got = output[0] if kind == list[Item] else output
    tags(got).append("b")
    assert tags(own) == ["a"]


def test_an_output_document_copies_too(contract):
    """SI-6: a JSON output under a document is not the handler's own object."""
    own = {"a": [1]}
    output = contract(lambda x: None, input_schema=OPEN, output_schema={}).validate_output(own)
    output["a"].append(2)
    assert own == {"a": [1]}


def test_what_a_validator_keeps_is_not_handed_out(accepts):
    """SI-6: a validator that returns an object it keeps hands out copies of it."""
    kept = ["shared"]

    made = accepts(Annotated[list[str], AfterValidator(lambda _: kept)])
    made.validate_input({"x": []})["x"].append("b")
    assert kept == ["shared"]


def test_a_mutable_default_is_not_handed_out(contract):
    """SI-6: a default object is copied for each call, also one that can be hashed."""

    class Frozen(BaseModel):
        model_config = ConfigDict(frozen=True)
        tags: list[str] = ["a"]

    shared = Frozen()

    def handler(x: Frozen = shared, y: int = 1) -> None: ...

    made = contract(handler)
    made.validate_input({})["x"].tags.append("b")
    assert shared.tags == ["a"]


def test_a_document_is_captured_at_registration(contract, issues):
    """Changing the schema afterwards changes neither the contract nor what is described (B 30)."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    made = contract(lambda x: None, input_schema=schema, output_schema={})
    schema["properties"]["x"]["type"] = "string"
    schema["required"].clear()
    assert made.validate_input({"x": 1}) == {"x": 1}
    assert issues(made.validate_input, {"x": "a"})
    assert made.input_schema["required"] == ["x"]
