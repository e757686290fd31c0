"""jsonschema and jsonschema-rs give the same answers and the same issues."""

from __future__ import annotations

import subprocess
import sys

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capgate.capability.dialect import make_judge
from capgate.capability.metaschema import check_references, check_schema
from capgate.capability.patterns import BadPatternError

ENGINES = {"jsonschema": None, "jsonschema-rs": jsonschema_rs}

CASES = [
    ({"type": "integer"}, [1, 1.0, 1.5, True, "1", None, 2**70]),
    ({"type": ["integer", "null"]}, [1, None, "a", False]),
    ({"type": "number"}, [1, 1.5, True, "1"]),
    ({"minimum": 3, "maximum": 5.5}, [2, 3, 5.5, 6, "x", 10**30, -(10**30)]),
    ({"exclusiveMinimum": 0, "exclusiveMaximum": 1e3}, [0, 0.5, 1000]),
    ({"multipleOf": 0.01}, [0.07, 1.1, 0.075, 3, 1e300, 10**25]),
    ({"multipleOf": 3}, [9, 10, 10**30, 9.0, 4.5, True]),
    ({"minLength": 2, "maxLength": 3}, ["a", "é€", "\U0001f600\U0001f600", "abcd"]),
    ({"minItems": 1, "maxItems": 2, "uniqueItems": True}, [[], [1, 1.0], [1, True], [1, 2, 3]]),
    ({"uniqueItems": True}, [[{"a": 1}, {"a": 1.0}], [[1], [True]], ["a", "a"]]),
    ({"minProperties": 1, "maxProperties": 1}, [{}, {"a": 1}, {"a": 1, "b": 2}]),
    ({"enum": [1, "a", [True]]}, [1, 1.0, True, "a", [1], [True]]),
    ({"const": {"a": 1}}, [{"a": 1.0}, {"a": True}, {}]),
    ({"required": ["a", "b", "c"]}, [{}, {"b": 1}, {"a": 1, "b": 1, "c": 1}, 5]),
    ({"properties": {"a": False, "b": {"type": "null"}}}, [{"a": 1}, {"b": 1}, {}]),
    ({"properties": {"a": {}}, "additionalProperties": False}, [{"a": 1, "z": 1, "y": 2}]),
    ({"additionalProperties": {"type": "string"}}, [{"a": 1, "b": "x"}]),
    ({"patternProperties": {"^x_": {"type": "string"}}, "additionalProperties": False},
     [{"x_a": 1, "y": 2}, {"x_a": "s"}]),
    ({"propertyNames": {"maxLength": 2}}, [{"abc": 1, "ab": 1, "abcd": 1}]),
    ({"propertyNames": False}, [{"a": 1}, {}]),
    ({"items": {"type": "integer"}}, [[1, "a", 2, "b"]]),
    ({"prefixItems": [{"type": "integer"}], "items": False}, [[1], [1, 2, 3], ["a"]]),
    ({"contains": {"type": "null"}, "minContains": 2, "maxContains": 3},
     [[], [None], [None] * 2, [None] * 4]),
    ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, [1, 5, "a"]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5, 3, "a", -1.5]),
    ({"allOf": [{"type": "integer"}, {"minimum": 5}]}, [1, 5, "a"]),
    ({"not": {"type": "string"}}, ["a", 1]),
    ({"if": {"type": "integer"}, "then": {"minimum": 4}, "else": False}, [1, 5, "a"]),
    ({"dependentRequired": {"a": ["b", "c"]}}, [{"a": 1}, {"a": 1, "b": 1, "c": 1}]),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, [{"a": 1}, {}]),
    ({"properties": {"a": {}}, "unevaluatedProperties": False}, [{"a": 1, "z": 1}]),
    ({"prefixItems": [{}], "unevaluatedItems": False}, [[1], [1, 2]]),
    ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}}, [1, "a"]),
    ({"$ref": "#there", "$defs": {"x": {"$anchor": "there", "type": "integer"}}}, [1, "a"]),
    ({"properties": {"a/b": {"$ref": "#/properties/c~1d"}, "c/d": {"type": "null"}}},
     [{"a/b": 1}, {"c/d": 1}]),
    ({"pattern": "^a$"}, ["a", "a\n", "b", 5]),
    ({"pattern": r"^\d+$"}, ["12", "٣", ""]),
    ({"pattern": r"^\w+$"}, ["ab_1", "é", ""]),
    ({"pattern": r"^\s$"}, [" ", "\u00a0", "\ufeff", "\x1c", "\x85", "\u2003"]),
    ({"pattern": r"^[^\s]$"}, ["a", "\u00a0", "\x85"]),
    ({"pattern": r"^\S\D\W$"}, ["aa!", "\u00a0a!", "٣٣é"]),
    ({"pattern": "^.$"}, ["a", "\r", "\u2028", "\n", "\x85", "\U0001f600"]),
    ({"pattern": r"^(?:a|b)(?<name>c)?[\w-]{1,2}\.\/\u00e9\x41$"}, ["ab-./éA", "ac--./éA", "x"]),
    ({"pattern": "a{2,}"}, ["aa", "a"]),
    (True, [1]),
    (False, [1]),
    ({"type": "object", "description": "d", "unknown-keyword": 1}, [{}, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "values"), CASES)
def test_the_engines_agree(schema, values):
    """The same document and value give the same faults, in the same order."""
    check_schema(schema)
    check_references(schema)
    judges = {name: make_judge(schema, fast) for name, fast in ENGINES.items()}
    for value in values:
        found = {name: judge(value) for name, judge in judges.items()}
        assert found["jsonschema"] == found["jsonschema-rs"], value


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([2**53, 2**70, -(10**20)]),
    st.floats(-5, 5).map(lambda n: round(n, 2)),
    st.text("ab1 \n", max_size=3),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)
PLAIN_RULES = st.one_of(
    st.sampled_from(["null", "boolean", "object", "array", "number", "integer", "string"]).map(
        lambda kind: {"type": kind}
    ),
    st.integers(-3, 3).map(lambda n: {"minimum": n}),
    st.sampled_from([0.1, 0.25, 2, 3]).map(lambda n: {"multipleOf": n}),
    st.integers(0, 3).map(lambda n: {"maxLength": n, "minItems": n}),
    st.sampled_from(["^a", "b$", "^[ab]*$", "1"]).map(lambda p: {"pattern": p}),
    VALUES.map(lambda value: {"const": value}),
    st.just({"uniqueItems": True}),
)
RULES = st.recursive(
    PLAIN_RULES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner).map(lambda p: {"properties": p}),
        inner.map(lambda rule: {"items": rule}),
        st.lists(inner, min_size=1, max_size=2).map(lambda rules: {"anyOf": rules}),
        st.lists(inner, min_size=1, max_size=2).map(lambda rules: {"oneOf": rules}),
        inner.map(lambda rule: {"not": rule}),
        st.tuples(inner, inner).map(lambda both: {**both[0], **both[1]}),
    ),
    max_leaves=4,
)


@given(RULES, st.lists(VALUES, min_size=1, max_size=4))
def test_the_engines_agree_on_anything(schema, values):
    """Documents and values nobody thought of give the same faults too."""
    judges = [make_judge(schema, fast) for fast in ENGINES.values()]
    for value in values:
        assert judges[0](value) == judges[1](value)


DANGEROUS = [
    "^(a+)+$", "(a*)*", "(a|a)*b", "(?:a|ab)+$", "((a+)b?)+", "(a{1,9}){1,9}", r"(.*)*x", "a*a*b",
    ".*.*=", "(?=a+)b", "(?!a)b", "(?<=a)b", "(a?){20}a{20}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", DANGEROUS)
def test_patterns_that_may_explode_need_the_fast_engine(pattern):
    """Without a bounded engine such a pattern is refused by name, and with it is judged at once."""
    schema = {"items": {"pattern": pattern}}
    with pytest.raises(BadPatternError, match=r"install capgate\[fast\]"):
        make_judge(schema, None)
    assert make_judge(schema, jsonschema_rs)(["a" * 2000 + "!", 5]) is not None


@pytest.mark.parametrize("pattern", ["^a+$", r"^[a-z]+@[a-z]+\.[a-z]{2,3}$", "(ab)?c*", "(a|b)c"])
def test_ordinary_patterns_need_nothing(pattern):
    """Patterns that take polynomial time on no part of themselves are accepted by both."""
    for fast in ENGINES.values():
        assert make_judge({"pattern": pattern}, fast)(5) == []


@pytest.mark.parametrize(
    "pattern",
    ["(", "a)", "[", "[]", "a**", "*a", "a{", "a}", r"\1", r"\b", r"\p{L}", r"\cA", r"\0", "(?i)a",
     "(?P<n>a)", "[a&&b]", "[[a]]", "a{2000}", r"[\S]", "a++", "\\", "^*"],
)  # fmt: skip
@pytest.mark.parametrize("fast", ENGINES.values(), ids=ENGINES)
def test_patterns_the_engines_read_differently_are_refused(pattern, fast):
    """What is not portable between engines is refused by both, not judged twice differently."""
    with pytest.raises(BadPatternError):
        make_judge({"pattern": pattern}, fast)


SCRIPT = """
import sys
sys.modules["jsonschema_rs"] = None
from capgate import ConfigurationError, Library
schema = {"type": "object", "properties": {"x": {"pattern": sys.argv[1]}}}
declare = Library("l", "1").capability("a", description="d", input_schema=schema, output_schema={})
try:
    made = declare(lambda x=None: x).definition.contract
    print(made.validate_input({"x": "aa"}))
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("^(a+)+$", "install capgate[fast]"), ("^a+$", "{'x': 'aa'}"), ("^b+$", "ContractViolation")],
)
def test_without_the_extra_jsonschema_judges_alone(pattern, said):
    """Where jsonschema-rs is missing, documents work and dangerous patterns fail by name."""
    command = [sys.executable, "-c", SCRIPT, pattern]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said in done.stdout + done.stderr
