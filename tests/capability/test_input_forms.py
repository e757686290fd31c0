"""Where an input contract may come from: parameters, one model, or a document."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, NotRequired

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypedDict

from capgate import ConfigurationError, Context

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")
    sku: str
    count: int = 1


@dataclasses.dataclass
class Line:
    sku: str
    count: int = 1


class Keys(TypedDict):
    sku: str
    count: NotRequired[int]


def test_parameters_are_the_fields(contract):
    """Each parameter is a field, with its description and default; unknown fields are refused."""

    def handler(query: Annotated[str, Field(description="What to find.")], limit: int = 10): ...

    handler.__annotations__["return"] = None
    schema = contract(handler).input_schema
    assert schema["type"] == "object"
    assert schema["required"] == ["query"]
    assert schema["properties"]["query"]["description"] == "What to find."
    assert schema["properties"]["limit"]["default"] == 10
    assert schema["additionalProperties"] is False


def test_defaults_are_part_of_the_validated_value(contract):
    """What the schema fills in is what policies, hashes and the handler see (reference A 33)."""

    def handler(query: str, limit: int = 10, tags: list[str] = []) -> None: ...  # noqa: B006

    made = contract(handler)
    value = made.validate_input({"query": "a"})
    assert value == made.bind(value) == {"query": "a", "limit": 10, "tags": []}
    assert value["tags"] is not made.validate_input({"query": "a"})["tags"]


def test_unknown_fields_of_a_signature_are_refused(contract, issues):
    """A field no parameter has is an error that names it."""

    def handler(a: int) -> None: ...

    assert issues(contract(handler).validate_input, {"a": 1, "z": 2}) == [
        {"path": "z", "message": "Unknown field."}
    ]


def test_the_context_is_no_input(contract, declare):
    """The parameter annotated Context, whatever its name, is not part of the input."""

    async def handler(a: int, extra: Context[Any], b: int = 2) -> None: ...

    definition = declare(handler).definition
    assert definition.context == "extra"
    assert set(definition.contract.input_schema["properties"]) == {"a", "b"}


def test_two_contexts_are_refused(declare):
    """Only one parameter can receive the context."""

    def handler(one: Context, two: Context) -> None: ...

    with pytest.raises(ConfigurationError, match="more than one parameter is annotated Context"):
        declare(handler)


@pytest.mark.parametrize("kind", [Order, Line, Keys])
def test_one_model_is_the_root(contract, kind):
    """One parameter of a model, dataclass or TypedDict is the whole input, bound under its name."""

    def handler(order): ...

    handler.__annotations__ = {"order": kind, "return": None}
    made = contract(handler)
    assert set(made.input_schema["properties"]) == {"sku", "count"}
    value = made.validate_input({"sku": "a", "count": "2"})
    assert isinstance(value, dict if kind is Keys else kind)
    assert made.dump_input(value) == {"sku": "a", "count": 2} == dict(made.arguments(value))
    assert made.bind(value) == {"order": value}


@pytest.mark.parametrize(
    "kind", [dict, list[int], dict[str, int], Order | None, RootModel[list[int]]]
)
def test_one_parameter_of_another_kind_is_a_field(contract, kind):
    """A single dict, list, union or root model is a field like any other."""

    def handler(only): ...

    handler.__annotations__ = {"only": kind, "return": None}
    assert list(contract(handler).input_schema["properties"]) == ["only"]


def test_a_model_among_other_parameters_is_a_field(contract):
    """Two parameters make an object of two fields, models or not."""

    def handler(order: Order, note: str = "") -> None: ...

    made = contract(handler)
    value = made.validate_input({"order": {"sku": "a"}})
    assert made.bind(value) == {"order": Order(sku="a"), "note": ""}
    assert made.arguments(value)["order"] == Order(sku="a")


def test_no_input_is_an_empty_object(contract, issues):
    """None stands for {} under every kind of contract (reference A 87)."""

    def by_fields(a: int = 1) -> None: ...
    def by_model(m: Order) -> None: ...
    def by_document(a=1): ...
    def nothing() -> None: ...

    assert contract(by_fields).validate_input(None) == {"a": 1}
    assert contract(nothing).validate_input(None) == {}
    assert issues(contract(by_model).validate_input, None)[0]["path"] == "sku"
    document = {"type": "object", "properties": {"a": {}}}
    made = contract(by_document, input_schema=document, output_schema={})
    assert made.validate_input(None) == {}


def test_a_default_of_the_only_model_is_the_missing_input(contract):
    """No input at all means the parameter's default, where it has one."""

    def handler(order: Order = Order(sku="x")) -> None: ...  # noqa: B008

    made = contract(handler)
    assert made.validate_input(None) == Order(sku="x")
    assert made.validate_input(None) is not handler.__defaults__[0]


@pytest.mark.parametrize("annotation", [dict, dict[str, Any], Mapping[str, object], Any, object])
def test_one_mapping_parameter_takes_a_documents_whole_object(contract, annotation):
    """Under a document, one parameter of a mapping type that is no property takes everything."""

    def handler(payload): ...

    handler.__annotations__ = {"payload": annotation}
    made = contract(handler, input_schema=SCHEMA, output_schema={})
    assert made.bind(made.validate_input({"a": 1})) == {"payload": {"a": 1}}


def test_parameters_take_a_documents_fields_by_name(contract):
    """Under a document, parameters are filled by name and keep their defaults."""

    def handler(a, b="none"): ...

    made = contract(handler, input_schema=SCHEMA, output_schema={})
    assert made.bind(made.validate_input({"a": 1})) == {"a": 1}
    assert made.bind(made.validate_input({"a": 1, "b": "x"})) == {"a": 1, "b": "x"}


def test_keyword_rest_takes_all_fields_of_a_document(contract):
    """**kwargs is allowed under a document, and receives every field without a parameter."""

    def handler(a, **rest): ...

    made = contract(handler, input_schema={"type": "object", "required": ["a"]}, output_schema={})
    assert made.bind(made.validate_input({"a": 1, "z": 2})) == {"a": 1, "z": 2}


def test_a_document_that_does_not_fit_its_handler_is_refused(contract):
    """A property nobody takes, or a parameter nobody fills, fails at registration."""

    def too_few(a): ...
    def too_many(a, b): ...

    with pytest.raises(ConfigurationError, match="takes no 'b'"):
        contract(too_few, input_schema=SCHEMA, output_schema={})
    with pytest.raises(ConfigurationError, match="'b' has no default"):
        contract(too_many, input_schema=SCHEMA, output_schema={})


def test_a_model_instance_is_checked_like_any_input(contract, issues):
    """An instance is dumped and validated: model_construct gives no free pass."""

    def handler(order: Order) -> None: ...

    made = contract(handler)
    given = Order(sku="a")
    assert made.validate_input(given) == given
    assert made.validate_input(given) is not given
    bad = Order.model_construct(sku=5, count="x")
    assert {i["path"] for i in issues(made.validate_input, bad)} == {"sku", "count"}
    assert issues(made.validate_input, Order.model_construct())[0]["message"] == "Field required."


def test_a_nested_instance_is_checked_too(contract, issues):
    """Instances inside lists, and dataclass instances, get no free pass either."""

    def handler(orders: list[Order], line: Line) -> None: ...

    raw = {"orders": [Order.model_construct(sku=None)], "line": Line(sku=3)}
    paths = {issue["path"] for issue in issues(contract(handler).validate_input, raw)}
    assert paths == {"orders.0.sku", "line.sku"}


def test_aliases_name_fields_outside_and_parameters_inside(contract):
    """A field is read and written under its alias, and handed over under the parameter's name."""

    class Aliased(BaseModel):
        order_id: str = Field(alias="orderId")

    def handler(item: Aliased, order_id: Annotated[str, Field(alias="orderId")]) -> None: ...

    made = contract(handler)
    value = made.validate_input({"item": Aliased(orderId="x"), "orderId": "y"})
    assert made.bind(value) == {"item": Aliased(orderId="x"), "order_id": "y"}
    assert made.dump_input(value) == {"item": {"orderId": "x"}, "orderId": "y"}
    assert made.prove_input(value) == made.dump_input(value)


def test_an_instance_in_place_of_fields_is_dumped_and_validated(contract, issues):
    """A model or dataclass given to a contract of parameters counts as the object of its fields."""

    def handler(sku: str, count: int = 5) -> None: ...

    made = contract(handler)
    for given in (Order(sku="a", count=2), Line("a", 2)):
        assert made.validate_input(given) == {"sku": "a", "count": 2}
    assert issues(made.validate_input, Order.model_construct(sku=1)) == [
        {"path": "sku", "message": "Expected a string."}
    ]


def test_an_instance_of_another_class_is_dumped_and_validated(contract, issues):
    """A root model accepts another model's instance by its fields only."""

    def handler(order: Order) -> None: ...

    class Wider(BaseModel):
        sku: str = "a"
        extra: int = 1

    made = contract(handler)
    assert made.validate_input(Line("a", 2)) == Order(sku="a", count=2)
    assert issues(made.validate_input, Wider()) == [{"path": "extra", "message": "Unknown field."}]


def test_a_mapping_that_is_no_dict_is_read_like_one(contract):
    """An ordinary mapping type is an object; what it holds is captured."""

    def handler(tags: list[str]) -> None: ...

    tags = ["a"]
    value = contract(handler).validate_input(MappingProxyType({"tags": tags}))
    tags.append("b")
    assert value == {"tags": ["a"]}
