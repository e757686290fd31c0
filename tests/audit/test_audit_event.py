"""The event: immutable, and plain JSON whatever is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum, StrEnum
from uuid import UUID

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from capgate.audit import AuditEvent, freeze
from capgate.audit.event import FIELDS
from capgate.audit.plain import to_plain


class Colour(StrEnum):
    RED = "red"


class Level(Enum):
    HIGH = 3


class Hostile(Mapping):
    def __getitem__(self, key):
        raise RuntimeError("no")

    def __iter__(self):
        raise RuntimeError("no")

    def __len__(self):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")


class Secret:
    def __repr__(self):
        return "hunter2"

    __str__ = __repr__


def test_an_event_cannot_be_changed(make):
    """No field of an event can be replaced, added or removed."""
    event = make()
    with pytest.raises(AttributeError):
        event.type = "other"
    with pytest.raises(AttributeError):
        event.extra = 1
    with pytest.raises(AttributeError):
        del event.data


def test_frozen_data_cannot_be_changed_at_any_depth(make):
    """Frozen data is read-only all the way down and shares nothing with its source."""
    reasons = ["large"]
    event = make(policy={"reasons": reasons})
    reasons.append("late")
    assert event.data["policy"]["reasons"] == ("large",)
    with pytest.raises(TypeError):
        event.data["policy"] = None
    with pytest.raises(TypeError):
        event.data["policy"]["reasons"] = None


def test_freezing_leaves_other_objects_alone():
    """What is neither a mapping nor a list is kept as it is."""
    secret = Secret()
    assert freeze({"a": secret})["a"] is secret


def test_an_interrupt_while_reading_a_value_goes_on():
    """Containing hostile values does not swallow what a signal raises."""

    class Interrupted(Hostile):
        def items(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        to_plain(Interrupted())


def test_to_dict_is_plain_json(make):
    """An event becomes dictionaries, lists and scalars with every field in its order."""
    plain = make(reasons=["large"]).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert list(plain) == list(FIELDS)
    assert plain["actor"] == {"id": "usr_1", "kind": "user"}
    assert plain["data"] == {"reasons": ["large"]}


def test_each_to_dict_is_its_own(make):
    """Changing the plain form changes neither the event nor the next plain form."""
    event = make(reasons=["large"])
    event.to_dict()["data"]["reasons"].append("late")
    assert event.to_dict()["data"] == {"reasons": ["large"]}


def test_a_timestamp_is_written_in_utc(make):
    """The time of another zone is written as the same instant in UTC."""
    zone = timezone(timedelta(hours=2))
    event = AuditEvent("t", datetime(2026, 1, 1, 2, tzinfo=zone))
    assert event.to_dict()["timestamp"] == "2026-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (datetime(2026, 1, 1), "2026-01-01T00:00:00.000000"),  # noqa: DTZ001 - an odd value
        (UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        ({2, 1}, [1, 2]),
        (2**53, "9007199254740992"),
        pytest.param(10**5000, "<int>", id="huge"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ("\ud800", "?"),
        (Secret(), "<Secret>"),
        (Hostile(), "<unreadable>"),
        (b"bytes", "<bytes>"),
        ({1: Secret}, {"1": "<type>"}),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00.000000Z"),
    ],
)
def test_odd_data_falls_back(value, plain):
    """What has no exact JSON form is replaced, and no repr is ever taken (SI-10)."""
    assert to_plain({"value": value}) == {"value": plain}


def test_data_that_contains_itself_is_cut():
    """A cycle and a structure that blows up end in a marker."""
    cycle = []
    cycle.append(cycle)
    assert to_plain(cycle) == ["<too deep>"]
    bomb = "x"
    for _ in range(40):
        bomb = [bomb, bomb]
    assert "<too deep>" in json.dumps(to_plain(bomb))


@given(st.recursive(st.from_type(object), lambda inner: st.lists(inner) | st.sets(st.integers())))
def test_any_value_has_a_plain_form(value):
    """Whatever is in an event, its plain form has canonical bytes."""
    assert rfc8785.dumps(to_plain(value))
