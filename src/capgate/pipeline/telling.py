"""The data of terminal events: facts about how a call ended, from its record."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capgate.call import Call
    from capgate.errors import JSON, CapabilityError, Record


def _ended(call: Call, data: dict[str, JSON]) -> Mapping[str, JSON]:
    """Add what every terminal event has, and freeze the data."""
    now = call.watch.now
    data["policy_decisions"] = call.decisions
    # Milliseconds since entry.
    data["duration_ms"] = (now() - call.started_at) * 1000.0
    if call.overrun:
        data["cleanup_overrun"] = True
    if call.replayed:
        data["replayed"] = True
    return MappingProxyType(data)


def completed_data(call: Call) -> Mapping[str, JSON]:
    """Return the data of `capability.completed`."""
    now = call.watch.now
    data: dict[str, JSON] = {
        "attempts": call.attempts,
        "late": call.late,
        "policy_decisions": call.decisions,
        "duration_ms": (now() - call.started_at) * 1000.0,
    }
    # The one event of every good call: nothing else to add, most of the time.
    return _ended(call, data) if call.overrun or call.replayed else MappingProxyType(data)


def denied_data(call: Call, facts: Record) -> Mapping[str, JSON]:
    """Return the data of `capability.denied`: the true reason beside what the outside saw."""
    public = facts.code._value_ if facts.exposed else "INTERNAL_ERROR"
    data: dict[str, JSON] = {"reason": call.denial, "public_code": public}
    if call.deny_reason is not None:
        data["policy_reason"] = call.deny_reason
    return _ended(call, data)


def failed_data(call: Call, error: CapabilityError) -> Mapping[str, JSON]:
    """Return the data of `capability.failed`."""
    return _ended(
        call,
        {
            "code": error.code.value,
            "effect": error.effect.value,
            "reason": error.reason,
            "stage": error.stage.value,
            "retryable": error.retryable,
            "attempts": call.attempts,
            "executed_before_failure": call.returned,
        },
    )


def cancelled_data(call: Call, *, native: bool) -> Mapping[str, JSON]:
    """Return the data of `capability.cancelled`."""
    return _ended(
        call,
        {
            "code": "CANCELLED" if call.error is None else call.error.code.value,
            "effect": call.effect.value,
            "native": native,
            "still_running": call.still_running,
            "attempts": call.attempts,
        },
    )
