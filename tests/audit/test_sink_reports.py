"""Reports of failing sinks: told, but not all the time."""

from __future__ import annotations

import pytest
import structlog

from capgate.audit.report import SinkReporter


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_one_report_a_minute(clock, log):
    """The same kind of failure is reported again after a minute, with what was held back."""
    reporter = SinkReporter(clock)
    for _ in range(3):
        reporter.report("a[0]", "raised", error=ValueError("canary"))
    clock.now += 60
    reporter.report("a[0]", "raised", error=KeyError("canary"))
    assert [(e["error_type"], e["suppressed"]) for e in log] == [("ValueError", 0), ("KeyError", 2)]


def test_kinds_and_sinks_are_counted_apart(clock, log):
    """Another kind of failure and another sink have reports of their own."""
    reporter = SinkReporter(clock)
    for sink, kind in [("a[0]", "raised"), ("a[0]", "timeout"), ("b[1]", "raised")] * 2:
        reporter.report(sink, kind)
    assert [(e["sink"], e["kind"]) for e in log] == [
        ("a[0]", "raised"),
        ("a[0]", "timeout"),
        ("b[1]", "raised"),
    ]


def test_a_report_holds_no_text_of_the_error(clock, log):
    """Only the type of what was raised is logged: its text may hold credentials."""
    SinkReporter(clock).report("a[0]", "raised", error=ValueError("canary"))
    assert "canary" not in repr(log)


def test_a_broken_clock_or_logger_is_contained(clock):
    """A report that cannot be made is not an outcome."""

    def broken(*_):
        raise RuntimeError("broken")

    SinkReporter(broken).report("a[0]", "raised")
    before = structlog.get_config()["processors"]
    try:
        structlog.configure(processors=[broken])
        SinkReporter(clock).report("a[0]", "raised")
    finally:
        structlog.configure(processors=before)
