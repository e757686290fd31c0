"""What the stores are given, as a call would make it."""

from __future__ import annotations

from datetime import UTC, datetime

from capgate.audit import AuditEvent
from capgate.testing.sample_approvals import yes

NOW = datetime(2026, 1, 1, 12, 1, tzinfo=UTC)
DECISION = yes("mia")


def event(number: int, kind: str = "capability.requested") -> AuditEvent:
    """An event of one execution."""
    execution_id = f"exe_{number}"
    return AuditEvent(
        kind,
        NOW,
        surface="direct",
        capability_id="orders.refund",
        execution_id=execution_id,
        correlation_id=execution_id,
    )


def started(execution_id: str) -> AuditEvent:
    """The event that a handler starts."""
    return AuditEvent(
        "capability.started",
        NOW,
        surface="direct",
        capability_id="orders.refund",
        execution_id=execution_id,
        correlation_id=execution_id,
        data={"attempt": 1, "approval_id": "apr_1"},
    )
