"""JSON Schema documents as contracts: what they accept, and what they refuse at registration."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import math

import pytest

from capgate import ConfigurationError

SCHEMA = {
    "type": "object",
    "properties": {
        "sku": {"type": "string", "minLength": 1},
        "count": {"type": "integer", "minimum": 1},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
    },
    "required": ["sku"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "object", "required": ["a"]}},
}


class Word(enum.StrEnum):
    A = "a"


class Text(str):
    __slots__ = ()


@pytest.fixture
def document(contract):
    """Return the contract of two documents, the handler taking the whole object."""

    def build(input_schema=SCHEMA, output_schema=None):
        async def handler(payload): ...

        output = {} if output_schema is None else output_schema
        return contract(handler, input_schema=input_schema, output_schema=output)

    return build


@pytest.fixture
def refused(document):
    """Return what is said about documents that are no contract."""

    def refuse(**documents):
        with pytest.raises(ConfigurationError) as caught:
            document(**documents)
        return str(caught.value)

    return refuse


def test_a_document_needs_no_annotations(document):
    """A handler without any annotation is declared with two documents."""
    made = document()
    assert made.validate_input({"sku": "a"}) == {"sku": "a"}
    assert made.bind({"sku": "a"}) == {"payload": {"sku": "a"}}
    assert dict(made.arguments({"sku": "a"})) == {"sku": "a"}
    assert made.input_schema == SCHEMA


def test_issues_of_a_document_are_paths_and_rules(document, issues):
    """Each fault has its path and capgate's words for the rule."""
    raw = {"sku": "", "count": 0, "lines": [{"a": 1}, {}], "z": 1}
    assert issues(document().validate_input, raw) == [
        {"path": "count", "message": "Must be at least 1."},
        {"path": "lines.1.a", "message": "Field required."},
        {"path": "sku", "message": "Must have at least 1 characters."},
        {"path": "z", "message": "Unknown field."},
    ]


NOT_JSON = [
    (1,),
    {1},
    frozenset(),
    b"a",
    bytearray(b"a"),
    decimal.Decimal(1),
    dt.date(2026, 1, 1),
    Word.A,
    Text("a"),
    math.nan,
    math.inf,
    {1: 1},
    {None: 1},
    {True: 1},
    {(1,): 1},
    object(),
    print,
    ...,
    iter([]),
    type("Dict", (dict,), {})(a=1),
    type("List", (list,), {})([1]),
    "a\udfff",
    {"\ud800": 1},
]


@pytest.mark.parametrize("value", NOT_JSON, ids=lambda value: type(value).__name__)
def test_only_exact_json_types_pass_a_document(document, issues, value):
    """Tuples, sets, subclasses and non-text keys are refused both ways (reference B 118-124)."""
    made = document({"type": "object"})
    assert issues(made.validate_input, {"x": value})
    assert issues(made.validate_output, value)


@pytest.mark.parametrize("value", [None, True, 0, -0.0, 1.5, 10**400, "", "\x00", [], {"": []}])
def test_every_json_value_passes_an_open_document(document, value):
    """Null, huge integers, -0.0, empty keys and NUL cross unchanged (reference B 109-110)."""
    made = document({"type": "object"})
    assert repr(made.validate_input({"x": value})) == repr({"x": value})
    assert repr(made.dump_output(made.validate_output(value))) == repr(value)
    assert repr(made.restore_input(made.prove_input({"x": value}))) == repr({"x": value})


def test_a_root_that_is_no_object_is_refused(refused):
    """The root of an input schema is an object (reference B 12); an output's may be anything."""
    said = 'the root of an input schema must say "type": "object"'
    assert said in refused(input_schema={"type": "array"})
    assert said in refused(input_schema={})


def test_the_value_must_be_an_object_too(document, issues):
    """A value whose root is no object is refused, whatever else it is (reference B 111)."""
    for value in ([], "x", 1, True):
        assert issues(document({"type": "object"}).validate_input, value)[0]["path"] == ""


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "objekt"}, "not a JSON Schema (2020-12): #/type"),
        ({"type": "object", "required": "a"}, "#/required"),
        ({"type": "object", "minProperties": -1}, "#/minProperties"),
        ({"type": "object", "properties": []}, "#/properties"),
        ({"type": "object", "allOf": []}, "#/allOf"),
        ({"type": "object", "multipleOf": 0}, "#/multipleOf"),
        ({"type": "object", "$ref": "#/$defs/none"}, "leads nowhere"),
        ({"type": "object", "$ref": "#nowhere"}, "leads nowhere"),
        ({"type": "object", "$ref": "https://example.com/x"}, "only point into its own document"),
        ({"type": "object", "$ref": "#"}, "leads back to itself"),
        ({"type": "object", "allOf": [{"$ref": "#"}]}, "leads back to itself"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, "dialect"),
        ({"type": "object", "items": {"$id": "x"}}, "$id is not supported"),
        ({"type": "object", "$dynamicRef": "#x"}, "$dynamicRef is not supported"),
        ({"type": "object", "default": {1, 2}}, "Not a JSON value."),
        ({"type": "object", "default": math.nan}, "Must be a finite number."),
    ],
)
def test_a_document_that_is_no_contract_is_refused(refused, schema, said):
    """Bad schemas, references outside or in circles, other dialects fail at registration."""
    assert said in refused(input_schema=schema)


def test_no_reference_is_ever_fetched(refused):
    """An output document cannot point outside either, by any scheme."""
    for target in ("http://127.0.0.1:9/x", "file:///etc/passwd", "other.json"):
        assert "own document" in refused(output_schema={"items": {"$ref": target}})


def test_a_document_must_be_a_plain_dict(refused):
    """A document that is no dict, or whose reading would run code, is refused unread (B 14-15)."""

    class Running(dict):
        def items(self):
            raise RuntimeError("CANARY")

    assert "must be a dict" in refused(input_schema=["type"])
    assert "CANARY" not in refused(input_schema=Running(type="object"))
    cyclic = {"type": "object"}
    cyclic["properties"] = {"me": cyclic}
    assert "refers to itself" in refused(input_schema=cyclic)


def test_recursion_through_the_value_is_fine(document, issues):
    """A reference to the whole document from inside a property describes a tree."""
    tree = {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}},
        "additionalProperties": False,
    }
    made = document(tree)
    assert made.validate_input({"kids": [{"kids": []}]})
    assert issues(made.validate_input, {"kids": [{"kid": []}]})[0]["path"] == "kids.0.kid"


def test_formats_are_only_remarks(document):
    """`format` is an annotation in 2020-12: it refuses nothing, with either engine."""
    schema = {"type": "object", "properties": {"x": {"format": "email"}}}
    assert document(schema).validate_input({"x": "no mail"})
