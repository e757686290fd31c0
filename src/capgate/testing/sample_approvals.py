"""Records and decisions for the approval store contract."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from capgate.approvals import ApprovalDecision, ApprovalRecord, bind
from capgate.call import Actor, ActorKind
from capgate.capability import input_hash

if TYPE_CHECKING:
    from capgate.approvals import ApprovalStore
    from capgate.errors import JSON

NOW: Final = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
EXPIRY: Final = NOW + timedelta(minutes=15)
TICK: Final = timedelta(microseconds=1)
_INPUT: Final = {"order_id": "ord_42", "amount": "49.00"}


def sample(id_: str, value: JSON = _INPUT, **changes: JSON) -> ApprovalRecord:
    """Return a pending, bound record; `changes` replace its other fields."""
    usual = ApprovalRecord(
        id=id_,
        capability_id="orders.refund",
        surface="direct",
        actor=Actor("dana", "service", permissions={"orders:refund"}),
        input=value,
        shown_input=value,
        input_hash=input_hash(value),
        contract="fingerprint",
        reasons=("Refunds need a manager.",),
        types=("manager",),
        risk="high",
        side_effect="write",
        correlation_id="cor_1",
        requested_at=NOW,
        expires_at=EXPIRY,
        approver_rules=({"requires": ["orders:approve"]},),
        idempotency_key="key-1",
    )
    changed = replace(usual, **changes)
    return replace(changed, binding=bind(changed))


def yes(
    by: str | Actor, *, kind: ActorKind = "user", comment: str | None = None
) -> ApprovalDecision:
    """Return an approval."""
    approver = by if isinstance(by, Actor) else Actor(by, kind)
    return ApprovalDecision(
        approved=True, by=approver, comment=comment, decided_at=NOW, seal="5ea1"
    )


def no(by: str) -> ApprovalDecision:
    """Return a rejection."""
    return ApprovalDecision(approved=False, by=Actor(by), decided_at=NOW)


async def open_record(store: ApprovalStore, id_: str, decision: ApprovalDecision) -> ApprovalRecord:
    """Create a record, decide it, and return what it became."""
    await store.create(sample(id_))
    return await store.decide(id_, decision, NOW)
