"""Keys cannot collide, and outcomes are plain JSON that nobody shares."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capgate.call import Actor
from capgate.errors import CapabilityError, Effect, ErrorCode, FailureStage, public_error, stamp
from capgate.idempotency import StoredOutcome, restore_error, scoped_key, store_error

ids = st.text(min_size=1).filter(str.strip)
triples = st.tuples(ids, st.tuples(ids, st.sampled_from(["user", "service"])), st.text())


@given(triples, triples)
def test_different_scopes_never_share_a_key(left, right):
    """A key belongs to one capability and one actor, whatever characters they use."""
    keys = [scoped_key(id_, Actor(*actor), key) for id_, actor, key in (left, right)]
    assert (keys[0] == keys[1]) == (left == right)
    assert all(key.isascii() and "\x00" not in key for key in keys)


def test_separators_inside_a_part_do_not_move_the_border():
    """The classic collision of joined strings."""
    mia = Actor("mia")
    assert scoped_key('a","user","mia","b', mia, "c") != scoped_key("a", mia, 'b","user","mia","c')
    assert scoped_key("a", mia, "1") != scoped_key("a", Actor("mia", "service"), "1")
    assert scoped_key("a", Actor("1"), "23") != scoped_key("a", Actor("12"), "3")


def test_an_outcome_survives_the_way_through_text():
    """What a store writes down is what it reads back."""
    outcome = StoredOutcome(
        "exe_1", "completed", output={"n": 10**40, "s": "1"}, effect="done", attempts=2, late=True
    )
    assert StoredOutcome.from_dict(json.loads(json.dumps(outcome.to_dict()))) == outcome


def test_an_outcome_shares_nothing_with_its_output():
    """Changing what was handed in or out changes nothing kept."""
    output = {"lines": (1,), "more": []}
    outcome = StoredOutcome("exe_1", "completed", output=output)
    output["more"].append(1)
    outcome.to_dict()["output"]["more"].append(2)
    assert outcome.output == {"lines": [1], "more": []}


def test_every_field_of_an_error_is_replayed():
    """A replayed failure is the first one: same message, exposure, effect and execution."""
    error = stamp(
        CapabilityError(
            ErrorCode.EXECUTION_FAILED,
            "Out of stock.",
            stage=FailureStage.EXECUTION,
            retryable=True,
            exposed=True,
            details={"left": [0]},
            reason="OUT_OF_STOCK",
            effect=Effect.DONE,
        ),
        execution_id="exe_1",
        public_details=True,
    )
    again = restore_error(json.loads(json.dumps(store_error(error))))
    assert store_error(again) == store_error(error)
    assert public_error(again) == public_error(error)
    assert type(again) is CapabilityError


@pytest.mark.parametrize(
    "change",
    [
        {"status": "approval-required"},
        {"output": object()},
        {"output": {1: 2}},
        {"output": [{"deep": b"x"}]},
        {"error": {"code": ErrorCode}},
        {"effect": "maybe"},
    ],
)
def test_what_cannot_be_stored_is_refused_before_it_is_kept(change):
    """A store never has to guess."""
    with pytest.raises((TypeError, ValueError)):
        StoredOutcome(**{"execution_id": "exe_1", "status": "completed", **change})
