"""The memory sink and the structlog sink."""

from __future__ import annotations

import pytest
import structlog

from capgate.audit import MemoryAudit, StructlogAudit


def test_memory_keeps_events_in_order(make):
    """The memory sink lists what it took, oldest first, and by type."""
    audit = MemoryAudit()
    events = [make("exe_1"), make("exe_1", "capability.completed"), make("exe_2")]
    for event in events:
        audit(event)
    assert audit.events == events
    assert audit.of_type("capability.completed") == [events[1]]


def test_memory_is_not_changed_through_its_events(make):
    """The list of events is a copy."""
    audit = MemoryAudit()
    audit(make())
    audit.events.clear()
    assert len(audit.events) == 1


def test_memory_can_be_cleared(make):
    """Cleared, the memory sink has no events."""
    audit = MemoryAudit()
    audit(make())
    audit.clear()
    assert audit.events == []


def test_structlog_writes_one_entry_an_event(make, log):
    """The entry is named by the event's type and carries its fields."""
    StructlogAudit()(make("exe_7", attempt=1))
    (entry,) = log
    assert entry["event"] == "capability.started"
    assert entry["log_level"] == "info"
    assert (entry["execution_id"], entry["data"]) == ("exe_7", {"attempt": 1})


def test_structlog_keeps_the_events_own_time(make):
    """A processor that stamps entries does not hide when the event happened."""
    entries = []

    def keep(logger, name, entry):
        entries.append(dict(entry))
        raise structlog.DropEvent

    logger = structlog.wrap_logger(None, [structlog.processors.TimeStamper(), keep])
    StructlogAudit(logger)(make())
    assert entries[0]["occurred_at"] == "2026-01-01T00:00:00.000000Z"
    assert entries[0]["timestamp"] != entries[0]["occurred_at"]


def test_structlog_uses_the_logger_it_is_given(make, log):
    """What is bound to the given logger is in the entry."""
    StructlogAudit(structlog.get_logger().bind(region="eu"))(make())
    assert log[0]["region"] == "eu"


@pytest.mark.parametrize("sink", [MemoryAudit(), StructlogAudit()], ids=["memory", "structlog"])
def test_a_sync_sink_returns_nothing(sink, make, log):
    """What is called in place leaves nothing to await."""
    assert sink(make()) is None
