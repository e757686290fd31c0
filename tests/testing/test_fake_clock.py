"""Wall time that tests move by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from capgate.testing import FakeClock

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_it_stands_still():
    """Two looks at the clock see the same aware time, at the start of 2026."""
    clock = FakeClock()
    assert clock.now() == clock.now() == START
    assert clock.now().tzinfo is not None


def test_it_starts_where_it_is_told():
    """The start is ISO 8601 text or an aware datetime."""
    assert FakeClock("2026-05-04T03:02:01+02:00").now() == datetime(2026, 5, 4, 1, 2, 1, tzinfo=UTC)
    assert FakeClock(START).now() is START


@pytest.mark.parametrize("start", ["yesterday", "", "2026-01-01T00:00:00", datetime(2026, 1, 1)])  # noqa: DTZ001  a naive one is refused
def test_a_start_without_an_offset_is_refused(start):
    """A start that is no date, or has no offset, is a ValueError."""
    with pytest.raises(ValueError, match=r"offset|isoformat"):
        FakeClock(start)


@pytest.mark.parametrize("start", [0, None, b"2026-01-01T00:00:00Z"])
def test_a_start_of_another_type_is_refused(start):
    """A start that is neither text nor a datetime is a TypeError."""
    with pytest.raises(TypeError, match="start"):
        FakeClock(start)


@pytest.mark.parametrize(
    ("by", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86400),
        (" 1.5 h ", 5400),
        (90, 90),
        (0.25, 0.25),
        (0, 0),
        (timedelta(minutes=1), 60),
    ],
)
def test_it_moves_by_any_duration(by, seconds):
    """Text with a unit, seconds and timedeltas all move it, and it answers with the new time."""
    clock = FakeClock()
    assert clock.advance(by) == clock.now() == START + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "by",
    ["", "15", "m", "15 minutes", "-1s", "1h30m", "1e3s", "٣s", "9" * 400 + "d", "15M", "nan s"],
)
def test_bad_text_is_refused(by):
    """Text that is no number with a unit is a ValueError, and the clock stays."""
    clock = FakeClock()
    with pytest.raises(ValueError, match="duration"):
        clock.advance(by)
    assert clock.now() == START


@pytest.mark.parametrize(
    "by", [-1, -0.001, timedelta(seconds=-1), float("nan"), float("inf"), 10**400, 10**12]
)
def test_impossible_steps_are_refused(by):
    """Backwards, endless and past the end of the calendar are ValueErrors."""
    clock = FakeClock()
    with pytest.raises(ValueError, match=r"duration|moved"):
        clock.advance(by)
    assert clock.now() == START


@pytest.mark.parametrize("by", [None, True, b"1s", [1], 1j])
def test_other_types_are_refused(by):
    """What is no duration at all is a TypeError."""
    with pytest.raises(TypeError, match="advance"):
        FakeClock().advance(by)


def test_it_shows_its_time():
    """Its repr is the time it stands at."""
    assert repr(FakeClock()) == "FakeClock('2026-01-01T00:00:00+00:00')"
