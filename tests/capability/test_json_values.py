"""The table of the JSON boundary, row by row, for contracts made of Python types."""

from __future__ import annotations

import dataclasses
import enum
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Strict


class Color(enum.Enum):
    RED = "r"


class Point(BaseModel):
    x: int


@dataclasses.dataclass
class Pair:
    a: int


NOT_FINITE = [float("nan"), float("inf"), float("-inf")]


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize("kind", [float, list[float], dict[str, float], Any, dict])
def test_numbers_that_are_not_finite_are_refused_both_ways(accepts, issues, kind, number):
    """NaN and both infinities, anywhere, are refused on the way in and on the way out."""
    made = accepts(kind)
    value = {float: number, list[float]: [number], Any: [{"a": number}]}.get(kind, {"a": number})
    found = issues(made.validate_input, {"x": value}) + issues(made.validate_output, value)
    assert {issue["message"] for issue in found} == {"Must be a finite number."}


@pytest.mark.parametrize("text", ["NaN", "nan", "Infinity", "-inf"])
def test_text_that_names_such_a_number_is_refused(accepts, issues, text):
    """Lax number parsing does not let NaN in through a string."""
    assert issues(accepts(float).validate_input, {"x": text})
    assert issues(accepts(Decimal).validate_input, {"x": text})


@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 2**70, -(10**30), 10**400])
@pytest.mark.parametrize("kind", [int, Any])
def test_integers_of_any_size_are_kept(accepts, number, kind):
    """An integer crosses unchanged in both directions, whatever its size."""
    made = accepts(kind)
    value = made.validate_input({"x": number})
    assert made.dump_input(value) == {"x": number} == made.restore_input({"x": number})
    assert made.dump_output(made.validate_output(number)) == number


def test_a_negative_zero_and_exponents_are_kept(accepts):
    """-0.0 stays negative and 1e300 stays itself, unlike reference B 116."""
    made = accepts(float)
    assert str(made.validate_input({"x": -0.0})["x"]) == "-0.0"
    assert str(made.dump_output(made.validate_output(-0.0))) == "-0.0"
    assert made.validate_input({"x": 1e300}) == {"x": 1e300}


@pytest.mark.parametrize("kind", [str, list[str], dict[str, str], dict[str, int], Any])
def test_text_with_a_lone_surrogate_is_refused_both_ways(accepts, issues, kind):
    """Text that UTF-8 cannot carry is refused, as a value and as a key (reference B 110)."""
    bad = "a\ud800"
    value = {str: bad, list[str]: [bad], Any: [bad], dict[str, int]: {bad: 1}}.get(kind, {"k": bad})
    made = accepts(kind)
    for found in (issues(made.validate_input, {"x": value}), issues(made.validate_output, value)):
        assert found[0]["message"] == "Text must be encodable as UTF-8."
        found[0]["path"].encode()


DECLARED = [
    (tuple[int, str], [1, "a"], (1, "a"), [1, "a"]),
    (set[int], [2, 1, 2], {1, 2}, [1, 2]),
    (frozenset[str], ["b", "a"], frozenset("ab"), ["a", "b"]),
    (bytes, "abc", b"abc", "abc"),
    (Decimal, "49.00", Decimal("49.00"), "49.00"),
    (datetime, "2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
    (date, "2026-01-01", date(2026, 1, 1), "2026-01-01"),
    (timedelta, "PT5S", timedelta(seconds=5), "PT5S"),
    (uuid.UUID, str(uuid.UUID(int=7)), uuid.UUID(int=7), str(uuid.UUID(int=7))),
    (Color, "r", Color.RED, "r"),
    (Pair, {"a": 1}, Pair(1), {"a": 1}),
    (Point, {"x": 1}, Point(x=1), {"x": 1}),
    (dict[int, str], {1: "a"}, {1: "a"}, {"1": "a"}),
]


@pytest.mark.parametrize(("kind", "sent", "typed", "written"), DECLARED)
def test_a_declared_type_decides_what_goes_in_and_out(contract, kind, sent, typed, written):
    """Types beyond JSON are parsed from it, typed for the handler, and written back as JSON."""

    def handler(x, y: int): ...

    handler.__annotations__ = {"x": kind, "y": int, "return": kind}
    made = contract(handler)
    value = made.validate_input({"x": sent, "y": 1})
    assert value["x"] == typed
    assert type(value["x"]) is type(typed)
    assert made.dump_input(value)["x"] == written
    assert made.dump_output(made.validate_output(typed)) == written


def test_bytes_that_are_not_text_have_no_json_form(accepts, issues):
    """Bytes that are no UTF-8 are refused: JSON could not carry them back."""
    made = accepts(bytes)
    assert issues(made.validate_input, {"x": b"\xff"})[0]["message"] == "Has no JSON form."
    assert issues(made.validate_output, b"\xff")


@pytest.mark.parametrize("kind", [Any, dict, list, object])
def test_what_no_type_describes_is_plain_json(accepts, kind):
    """Under Any, dict or list the handler gets plain JSON, also for what pydantic can write."""
    value = [1, (2, Decimal("1.5")), {"when": date(2026, 1, 1)}]
    sent = {"k": value} if kind is dict else value
    plain = [1, [2, "1.5"], {"when": "2026-01-01"}]
    expected = {"k": plain} if kind is dict else plain
    made = accepts(kind)
    assert made.validate_input({"x": sent}) == {"x": expected}
    assert made.validate_output(sent) == expected


@pytest.mark.parametrize("kind", [Any, dict])
@pytest.mark.parametrize("key", [1, None, True, (1,), b"a"])
def test_keys_that_are_no_text_are_refused_where_no_type_says_otherwise(accepts, issues, kind, key):
    """A mapping of undeclared keys has text keys only: {1: …} and {"1": …} must not meet."""
    made = accepts(kind)
    assert issues(made.validate_input, {"x": {key: 1}})
    assert issues(made.validate_output, {key: 1})


def test_an_iterator_under_any_is_refused_and_not_consumed(accepts, issues):
    """A generator is no value: it is refused without taking anything from it."""
    numbers = iter([1, 2])
    assert issues(accepts(Any).validate_input, {"x": numbers})
    assert next(numbers) == 1


def test_lax_mode_is_the_default_and_strict_is_the_contracts_choice(contract, issues):
    """Text "5" becomes 5 unless the contract says strict."""

    def handler(lax: int, exact: Annotated[int, Strict()] = 1) -> None: ...

    made = contract(handler)
    assert made.validate_input({"lax": "5"})["lax"] == 5
    assert issues(made.validate_input, {"lax": 5, "exact": "5"})[0]["path"] == "exact"


def test_the_same_object_twice_is_no_cycle(accepts):
    """References that are shared but not cyclic are accepted (reference A 98, B 109)."""
    shared = {"a": [1]}
    made = accepts(Any)
    value = made.validate_input({"x": [shared, shared]})["x"]
    assert value == [shared, shared]
    assert value[0] is not value[1]
