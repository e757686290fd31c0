"""Whatever is done to a chained stream, verification finds it."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from types import MappingProxyType

from hypothesis import assume, given
from hypothesis import strategies as st

from capgate.audit import AuditEvent, ChainedAudit, Tail, freeze, verify_chain

SIZE = 6
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
)
data = st.dictionaries(st.text(max_size=3), scalars | st.lists(scalars, max_size=2), max_size=3)
places = st.integers(0, SIZE - 1)


class Records:
    def __init__(self):
        self.records = []

    def write(self, record):
        self.records.append(json.loads(json.dumps(dict(record))))

    def tail(self):
        return Tail(self.records[-1] if self.records else None)


@st.composite
def chains(draw):
    """A good chain of six records."""
    sink = Records()
    chain = ChainedAudit(sink)
    actor = MappingProxyType({"id": "usr_1", "kind": "user"})
    for number in range(SIZE):
        now = datetime(2026, 1, 1, second=number, tzinfo=UTC)
        event = AuditEvent(
            "t",
            now,
            surface="direct",
            actor=actor,
            execution_id="exe",
            capability_id="cap",
            data=freeze(draw(data)),
        )
        chain(event)
    return sink.records


def found_at(records, place):
    """Whether verification stops at the index `place`."""
    return verify_chain(records).first_bad == place + 1


@given(chains())
def test_an_untouched_chain_is_good(records):
    """No good chain is called bad."""
    report = verify_chain(json.dumps(record) for record in records)
    assert (report.ok, report.checked, report.first_bad) == (True, SIZE, None)


@given(chains(), places, st.data(), scalars)
def test_any_changed_field_is_found(records, place, draw, value):
    """A single field with another value is found at its record."""
    record = records[place]
    name = draw.draw(st.sampled_from(sorted(record)))
    assume((type(value), value) != (type(record[name]), record[name]))
    record[name] = value
    assert found_at(records, place)


@given(chains(), places, st.data(), scalars)
def test_any_changed_detail_is_found(records, place, draw, value):
    """A change inside the data of a record is found at its record."""
    details = records[place]["data"]
    assume(details)
    before = copy.deepcopy(details)
    details[draw.draw(st.sampled_from(sorted(details)))] = value
    # 1 and 1.0 are the same number in JSON; True is not.
    assume(
        json.dumps(details) != json.dumps(before)
        and (details != before or repr(True) in repr(details))
    )
    assert found_at(records, place)


@given(chains(), places, st.text(min_size=1), scalars)
def test_an_added_or_removed_field_is_found(records, place, name, value):
    """A record with one field more or less is found."""
    removed = copy.deepcopy(records)
    del removed[place][sorted(removed[place])[place]]
    assert found_at(removed, place)
    assume(name not in records[place])
    records[place][name] = value
    assert found_at(records, place)


@given(chains(), st.integers(0, SIZE - 2))
def test_a_missing_record_is_found(records, place):
    """A record deleted before the end is found where the next one stands."""
    del records[place]
    assert found_at(records, place)


@given(chains(), places)
def test_a_duplicated_record_is_found(records, place):
    """A record that is there twice is found at the second."""
    records.insert(place, records[place])
    assert found_at(records, place + 1)


@given(chains(), places, places)
def test_swapped_records_are_found(records, one, other):
    """Two records in each other's place are found at the first of them."""
    assume(one != other)
    records[one], records[other] = records[other], records[one]
    assert found_at(records, min(one, other))


@given(chains(), places, st.sampled_from([b"junk", b"[]", b"1", b'{"seq":1,"seq":1}', b"\xff"]))
def test_an_inserted_line_is_found(records, place, junk):
    """A line that is no record is found where it stands."""
    lines = [json.dumps(record).encode() for record in records]
    lines.insert(place, junk)
    assert found_at(lines, place)
