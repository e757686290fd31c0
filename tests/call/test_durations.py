"""Durations and the limits of an engine: finite seconds above 0, everything wrong told at once."""

from __future__ import annotations

import math
from datetime import UTC, timedelta

import pytest

from capgate import ConfigurationError, Limits
from capgate.call import SystemClock, to_seconds


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(1, 1.0), (0.25, 0.25), (timedelta(minutes=2), 120.0), (timedelta(milliseconds=5), 0.005)],
)
def test_seconds_and_timedeltas_are_durations(value, seconds):
    """Numbers are seconds; a timedelta is what it is."""
    assert to_seconds(value, "timeout") == seconds


@pytest.mark.parametrize(
    "value", [0, -1, 0.0, math.nan, math.inf, -math.inf, timedelta(0), timedelta(-1), 10**400]
)
def test_durations_are_finite_and_positive(value):
    """0, negative, infinite and not-a-number are refused, with the setting's name."""
    with pytest.raises(TypeError, match="timeout must be finite and greater than 0"):
        to_seconds(value, "timeout")


@pytest.mark.parametrize("value", [True, False, None, "5", b"5", [5], 5j])
def test_other_values_are_no_durations(value):
    """True is no duration, nor is anything that is not a number or a timedelta."""
    with pytest.raises(TypeError, match="timeout must be seconds or a timedelta"):
        to_seconds(value, "timeout")


def test_large_durations_are_taken():
    """No 32-bit timer overflows: a hundred years are a duration."""
    assert to_seconds(timedelta(days=36500), "timeout") == 36500 * 86400.0


def test_defaults():
    """The defaults are the documented ones."""
    limits = Limits()
    assert (limits.timeout, limits.policy_timeout, limits.discovery_timeout) == (30, 5, 30)
    assert (limits.approval_expires_in, limits.audit_timeout, limits.cleanup_grace) == (900, 5, 5)
    assert (limits.max_concurrency, limits.max_depth) == (None, 64)


def test_limits_are_kept_in_seconds():
    """A timedelta becomes seconds when the limits are made."""
    assert Limits(timeout=timedelta(minutes=1)).timeout == 60.0


def test_limits_tell_everything_that_is_wrong():
    """Every wrong field is named at once."""
    with pytest.raises(ConfigurationError) as caught:
        Limits(timeout=0, policy_timeout=True, max_depth=0, max_concurrency=1.5, max_queue=-1)
    wheres = {issue.where for issue in caught.value.issues}
    names = ("timeout", "policy_timeout", "max_depth", "max_concurrency", "max_queue")
    assert wheres == {f"limits.{name}" for name in names}


@pytest.mark.parametrize("value", [True, 0, -1, "2", 2.0])
def test_counts_are_whole_numbers(value):
    """A count is a whole number of at least 1."""
    with pytest.raises(ConfigurationError):
        Limits(policy_concurrency=value)


def test_a_queue_may_be_empty():
    """A queue of 0 lets nobody wait; no limit is None."""
    assert Limits(max_queue=0, max_concurrency=None).max_queue == 0


def test_limits_cannot_be_changed():
    """Limits are a frozen value."""
    with pytest.raises(AttributeError):
        Limits().timeout = 1


def test_the_system_clock_is_aware():
    """The system's clock tells UTC."""
    assert SystemClock().now().tzinfo is UTC
