"""The data of terminal events: facts about how a call ended, from its record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from capgate.pipeline.evidence import frozen

if TYPE_CHECKING:
    from capgate.call import Call
    from capgate.errors import JSON, CapabilityError


def _duration(call: Call) -> float:
    """Return milliseconds since entry."""
    return max((call.watch.now() - call.started_at) * 1000.0, 0.0)


def _overruns(call: Call) -> dict[str, JSON]:
    return {"cleanup_overrun": True} if call.overrun else {}


def completed_data(call: Call) -> Mapping[str, JSON]:
    """Return the data of `capability.completed`."""
    extra: dict[str, JSON] = {"replayed": True} if call.replayed else {}
    return frozen(
        duration_ms=_duration(call),
        attempts=call.attempts,
        late=call.late,
        policy_decisions=call.decisions,
        **extra,
        **_overruns(call),
    )


def denied_data(call: Call, error: CapabilityError) -> Mapping[str, JSON]:
    """Return the data of `capability.denied`: the true reason beside what the outside saw."""
    return frozen(
        reason=call.denial,
        policy_reason=call.deny_reason,
        public_code=error.code.value if error.exposed else "INTERNAL_ERROR",
        policy_decisions=call.decisions,
        duration_ms=_duration(call),
    )


def failed_data(call: Call, error: CapabilityError) -> Mapping[str, JSON]:
    """Return the data of `capability.failed`."""
    extra: dict[str, JSON] = {"replayed": True} if call.replayed else {}
    return frozen(
        code=error.code.value,
        effect=error.effect.value,
        reason=error.reason,
        stage=error.stage.value,
        retryable=error.retryable,
        attempts=call.attempts,
        executed_before_failure=call.returned,
        policy_decisions=call.decisions,
        duration_ms=_duration(call),
        **extra,
        **_overruns(call),
    )


def cancelled_data(call: Call, *, native: bool) -> Mapping[str, JSON]:
    """Return the data of `capability.cancelled`."""
    return frozen(
        code="CANCELLED" if call.error is None else call.error.code.value,
        effect=call.effect.value,
        native=native,
        still_running=call.still_running,
        attempts=call.attempts,
        policy_decisions=call.decisions,
        duration_ms=_duration(call),
        **_overruns(call),
    )
