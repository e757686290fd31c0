"""Canonical JSON: the published vectors, and what has no canonical form."""

from __future__ import annotations

import decimal
import json
import math
from pathlib import Path

import pytest

from capgate import canonical_json, input_hash
from capgate.capability import freeze, parse_json

FILE = Path(__file__).parents[1] / "vectors" / "canonical_json.json"
VECTORS = json.loads(FILE.read_text("utf-8"))["vectors"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_published_vectors(vector):
    """RFC 8785's own vectors and capgate's, big integers among them, byte for byte."""
    value = parse_json(vector["input"])
    assert canonical_json(value).decode() == vector["canonical"]
    assert input_hash(value) == vector["sha256"]
    assert canonical_json(parse_json(vector["canonical"])).decode() == vector["canonical"]


def cyclic():
    value = {}
    value["me"] = value
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


NO_FORM = [
    math.nan,
    math.inf,
    [-math.inf],
    "\ud800",
    {"\udfff": 1},
    {1: 2},
    {1: 2, 3: 4},
    {"a": 1, 2: 3},
    (1,),
    {1},
    b"a",
    decimal.Decimal(1),
    object(),
    cyclic(),
    deep(),
]


@pytest.mark.parametrize("value", NO_FORM, ids=range(len(NO_FORM)))
def test_what_is_not_json_has_no_canonical_form(value):
    """NaN, surrogates, other keys, foreign types, cycles and abysses raise ValueError."""
    for write in (canonical_json, input_hash):
        with pytest.raises(ValueError, match=r"Must|Not|Text|keys|Nested"):
            write(value)


def test_integers_beyond_any_limit_are_written_in_full():
    """An integer of ten thousand digits is written exactly, where Python's own str() refuses."""
    assert canonical_json(10**9999) == b"1" + b"0" * 9999
    assert canonical_json(-(10**9999)) == b"-1" + b"0" * 9999


def test_no_two_integers_share_a_hash():
    """Neighbours beyond 2**53, which floats cannot tell apart, have different hashes."""
    assert len({input_hash(2**53 + n) for n in range(10)}) == 10


def test_key_order_does_not_matter_and_array_order_does():
    """Hashes bind values, not the order in which an object was written (reference A 91)."""
    assert input_hash({"a": 1, "b": [1, 2]}) == input_hash({"b": [1, 2], "a": 1})
    assert input_hash([1, 2]) != input_hash([2, 1])


def test_frozen_json_has_the_same_form():
    """Frozen schemas hash like the plain ones they were made from."""
    value = {"b": [{"c": None}], "a": True}
    assert canonical_json(freeze(value)) == canonical_json(value)
