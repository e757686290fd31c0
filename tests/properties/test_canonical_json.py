"""Canonical JSON for values nobody thought of."""

from __future__ import annotations

import json

import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from capgate import canonical_json, input_hash
from capgate.capability import capture, freeze, parse_json

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
SAFE = st.integers(-(2**53) + 1, 2**53 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def values(integers, floats=FLOATS):
    leaves = st.none() | st.booleans() | integers | floats | TEXT
    return st.recursive(
        leaves, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=15
    )


VALUES = values(st.integers())


@given(VALUES)
def test_the_form_is_read_back_to_the_same_form(value):
    """Reading the canonical text and writing it again changes no byte."""
    text = canonical_json(value)
    assert canonical_json(parse_json(text)) == text


@given(values(st.integers(), st.floats(-(2.0**53), 2.0**53)))
def test_the_form_is_json_of_the_same_value(value):
    """The canonical text is JSON of an equal value; beyond 2**53 a float's digits are rounded."""
    assert json.loads(canonical_json(value)) == value


@given(values(SAFE))
def test_the_form_is_rfc_8785(value):
    """Where RFC 8785 has a form, capgate's is that one, byte for byte."""
    assert canonical_json(value) == rfc8785.dumps(value)


@given(st.dictionaries(TEXT, VALUES), st.randoms())
def test_the_order_of_keys_does_not_matter(value, random):
    """An object hashes the same in whatever order it was written."""
    items = list(value.items())
    random.shuffle(items)
    assert input_hash(dict(items)) == input_hash(value)


@given(VALUES)
def test_copies_have_the_same_hash(value):
    """Captured and frozen copies are the same value."""
    assert input_hash(capture(value)) == input_hash(freeze(value)) == input_hash(value)


@given(st.integers(), st.integers())
def test_different_integers_have_different_hashes(one, other):
    """No two integers share a canonical form, however large."""
    assert (canonical_json(one) == canonical_json(other)) == (one == other)
