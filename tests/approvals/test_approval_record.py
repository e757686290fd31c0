"""Records are values: exact, detached, and lossless as JSON."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capgate.approvals import ApprovalDecision, ApprovalRecord, ApprovalStatus, intact
from capgate.call import Actor
from capgate.testing.sample_approvals import EXPIRY, NOW, TICK, sample, yes

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values)
def test_any_json_input_survives_the_way_through_text(value):
    """SI-5: what a store writes down as JSON text is what it reads back, types included."""
    record = sample("apr_1", value) if _has_no_surrogate(value) else _unhashed(value)
    again = ApprovalRecord.from_dict(json.loads(json.dumps(record.to_dict())))
    assert again == record
    assert json.dumps(again.input) == json.dumps(value)


def _has_no_surrogate(value) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unhashed(value) -> ApprovalRecord:
    return replace(sample("apr_1"), input=value, shown_input=value)


def test_decisions_survive_the_way_through_text():
    """Who decided, when, with which words and seal, comes back."""
    plain = ApprovalDecision(approved=True, by=Actor("max"))
    record = sample("apr_1", decisions=(yes("mia", comment="ok\x00"), plain), quorum=2)
    again = ApprovalRecord.from_dict(json.loads(json.dumps(record.to_dict())))
    assert again == record
    assert again.decisions[0].seal == "5ea1"


class Role(StrEnum):
    ADMIN = "admin"


class Level(IntEnum):
    HIGH = 3


def test_actor_attributes_of_every_storable_kind_survive():
    """Attributes come back equal, whatever kind of plain value they are."""
    attributes = {
        "plain": [None, True, 1, 1.5, "x", {"a": {"$": 1}}, {"$set": 1, "b": []}],
        "tagged": {"$decimal": "1"},
        "role": Role.ADMIN,
        "level": Level.HIGH,
        "odd": (float("inf"), Decimal("1.10"), b"\x00", frozenset({1}), {2}, NOW, NOW.date()),
    }
    record = sample("apr_1", actor=Actor("dana", attributes=attributes))
    again = ApprovalRecord.from_dict(json.loads(json.dumps(record.to_dict())))
    assert dict(again.actor.attributes) == attributes
    assert intact(again)


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize("value", [object(), Colour.RED, {1: 2}, [{"deep": object()}]])
def test_an_actor_that_cannot_be_stored_is_refused_by_name_of_the_attribute(value):
    """The message names the attribute and the kind, never the value."""
    with pytest.raises(TypeError, match="'tenant' cannot be stored"):
        sample("apr_1", actor=Actor("dana", attributes={"tenant": value}))


def test_a_record_shares_nothing_with_the_json_it_was_built_from():
    """Reference A shared the input object with its caller."""
    value = {"lines": [1]}
    record = sample("apr_1", value)
    value["lines"].append(2)
    record.to_dict()["input"]["lines"].append(3)
    record.copy().input["lines"].append(4)
    assert record.input == {"lines": [1]}


def test_a_record_cannot_be_changed():
    """Records and decisions are frozen."""
    with pytest.raises(FrozenInstanceError):
        sample("apr_1").status = ApprovalStatus.APPROVED
    with pytest.raises(FrozenInstanceError):
        yes("mia").approved = False


@pytest.mark.parametrize("status", [ApprovalStatus.PENDING, ApprovalStatus.APPROVED])
def test_an_open_record_expires_at_the_tick(status):
    """Expiry is `now >= expires_at`."""
    record = sample("apr_1", status=status)
    assert record.status_at(EXPIRY - TICK) is status
    assert record.status_at(EXPIRY) is ApprovalStatus.EXPIRED
    assert record.at(EXPIRY + TICK).status is ApprovalStatus.EXPIRED


@pytest.mark.parametrize("status", ["rejected", "cancelled", "consumed", "expired"])
def test_an_ended_record_keeps_its_status(status):
    """What has ended does not become expired later."""
    assert sample("apr_1", status=status).status_at(EXPIRY + TICK) == status


def test_times_are_instants_in_any_zone():
    """A time given in another zone is the same instant, kept in UTC."""
    local = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    record = sample("apr_1", requested_at=local)
    assert record.requested_at == NOW
    assert record.to_dict()["requested_at"] == "2026-01-01T12:00:00.250000+00:00"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"expires_at": datetime(2026, 1, 1)}, ValueError),  # noqa: DTZ001  the point
        ({"expires_at": "2026-01-01"}, TypeError),
        ({"actor": "dana"}, TypeError),
        ({"status": "open"}, ValueError),
        ({"quorum": 0}, ValueError),
    ],
)
def test_a_malformed_record_is_refused(change, error):
    """Naive times, foreign actors and unknown statuses are no record."""
    with pytest.raises(error):
        replace(sample("apr_1"), **change)


@pytest.mark.parametrize(
    "fields",
    [
        {"approved": 1},
        {"approved": "yes"},
        {"by": "mia"},
        {"by": object.__new__(Actor)},
        {"comment": b"x"},
        {"comment": "\ud800"},
        {"decided_at": datetime(2026, 1, 1)},  # noqa: DTZ001  the point
    ],
)
def test_a_malformed_decision_is_no_decision(fields):
    """A truthy value is no yes, and a name is no approver."""
    with pytest.raises((TypeError, ValueError, AttributeError)):
        ApprovalDecision(**{"approved": True, "by": Actor("mia"), **fields})
