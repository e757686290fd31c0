"""Issues say where and which rule, in capgate's words, and never what the value was (SI-9)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr
from pydantic_core import PydanticCustomError, PydanticKnownError

from capgate import Forbidden
from capgate.capability import ContractViolation, NotJson


class Item(BaseModel):
    sku: str


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    bones: int


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


@pytest.mark.parametrize(
    ("kind", "sent", "path", "message"),
    [
        (int, "x", "x", "Expected an integer."),
        (int, 1.5, "x", "Expected an integer."),
        (str, 1, "x", "Expected a string."),
        (bool, "maybe", "x", "Expected true or false."),
        (float, [], "x", "Expected a number."),
        (list[int], {}, "x", "Expected an array."),
        (dict[str, int], [], "x", "Expected an object."),
        (list[Item], [1], "x.0", "Expected an object."),
        (list[Item], [{"sku": "a"}, {}], "x.1.sku", "Field required."),
        (dict[str, list[int]], {"k": [1, "x"]}, "x.k.1", "Expected an integer."),
        (dict[int, int], {"k": 1}, "x.k", "Expected an integer."),
        (Annotated[int, Field(gt=0)], 0, "x", "Must be greater than 0."),
        (Annotated[int, Field(le=10)], 11, "x", "Must be at most 10."),
        (Annotated[str, Field(min_length=2)], "a", "x", "Must have at least 2 characters."),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "x", "Must have at most 1 items."),
        (Annotated[str, Field(pattern="^a$")], "b", "x", "Must match the declared pattern."),
        (Literal["a"], "b", "x", "Must be one of the allowed values."),
        (None, 1, "x", "Expected null."),
        (Pet, {"kind": "cat", "lives": "x"}, "x.lives", "Expected an integer."),
        (Pet, {"kind": "CANARY"}, "x", "Must name one of the allowed kinds."),
        (list[Pet], [{"kind": "dog"}], "x.0.bones", "Field required."),
    ],
)
def test_each_rule_has_its_own_words(accepts, issues, kind, sent, path, message):
    """An issue is the path of the value and the rule it breaks."""
    assert issues(accepts(kind).validate_input, {"x": sent}) == [{"path": path, "message": message}]


def test_the_root_has_an_empty_path(accepts, issues):
    """A value that is wrong as a whole has the path of nothing."""
    assert issues(accepts(int).validate_input, []) == [
        {"path": "", "message": "Expected an object."}
    ]


def test_the_branches_of_a_union_leave_no_trace_in_paths(accepts, issues):
    """Names of union branches, an author's function among them, are not shown."""

    def check_private(value):
        raise ValueError("CANARY")

    kind = int | Annotated[str, AfterValidator(check_private)]
    found = issues(accepts(kind).validate_input, {"x": "CANARY"})
    assert found == [
        {"path": "x", "message": "Expected an integer."},
        {"path": "x", "message": "Not valid."},
    ]


class Loud(Exception):
    def __str__(self):
        raise RuntimeError("CANARY")


def raising(error):
    def validate(value):
        raise error(value) if error is not Loud else Loud

    return validate


def custom(value):
    return PydanticCustomError("CANARY", "CANARY {value}", {"value": value})


def known(value):
    return PydanticKnownError("greater_than", {"gt": 987654321})


def copied_type(value):
    cause = NotJson(value, (value,))
    return PydanticCustomError("capgate_json", "x", {"cause": cause})


def borrowed(value):
    return NotJson(value, (value,))


@pytest.mark.parametrize(
    "error",
    [ValueError, AssertionError, RuntimeError, KeyError, RecursionError, Loud, custom, known,
     copied_type, borrowed],
)  # fmt: skip
@pytest.mark.parametrize("place", [BeforeValidator, AfterValidator])
def test_what_a_validator_raises_is_not_repeated(accepts, error, place):
    """SI-9: neither text, type nor numbers of an author's exception appear (reference B 106)."""
    made = accepts(Annotated[str, place(raising(error))])
    for judge, value in ((made.validate_input, {"x": "CANARY"}), (made.validate_output, "CANARY")):
        with pytest.raises(ContractViolation) as caught:
            judge(value)
        assert "CANARY" not in f"{caught.value} {caught.value!r} {caught.value.issues}"
        assert "987654321" not in str(caught.value.issues)
        assert caught.value.__cause__ is not None


def test_a_validator_cannot_choose_another_failure(accepts):
    """A governed error raised inside a validator is a broken contract all the same (B 103)."""

    def refuse(value):
        raise Forbidden

    with pytest.raises(ContractViolation):
        accepts(Annotated[int, AfterValidator(refuse)]).validate_input({"x": 1})


def test_secrets_are_not_repeated(accepts, issues):
    """SI-9: the value of a secret field is in no issue, whatever is wrong with it."""
    found = issues(accepts(dict[str, SecretStr]).validate_input, {"x": {"a": ["CANARY"]}})
    assert found == [{"path": "x.a", "message": "Expected a string."}]


def test_the_same_issue_is_said_once(accepts, issues):
    """Two branches that complain alike make one issue."""
    found = issues(accepts(Annotated[int, Field(gt=5)] | int).validate_input, {"x": "no"})
    assert found == [{"path": "x", "message": "Expected an integer."}]


def test_at_most_a_hundred_issues_are_kept(accepts, issues):
    """A million bad items do not make a million issues."""
    assert len(issues(accepts(list[int]).validate_input, {"x": ["a"] * 5000})) == 100


def test_long_paths_and_keys_are_cut(accepts, issues):
    """A key of a megabyte and a path of sixty steps do not come back whole."""
    made = accepts(Any)
    value = float("nan")
    for _ in range(60):
        value = {"k" * 1000: value}
    assert len(issues(made.validate_input, {"x": value})[0]["path"]) < 1200
    assert len(issues(made.validate_input, {"x": 1, "z" * 10**6: 1})[0]["path"]) < 100


def test_a_violation_holds_no_value(accepts):
    """SI-9: the violation's own text is constant; what was raised is its private cause."""
    with pytest.raises(ContractViolation) as caught:
        accepts(int).validate_input({"x": "CANARY"})
    assert str(caught.value) == "the value breaks its contract"
