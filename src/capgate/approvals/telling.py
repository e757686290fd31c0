"""What the audit hears of a decision, or of an attempt at one; never of the input."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from capgate.approvals.record import ApprovalDecision, ApprovalRecord
from capgate.call import Actor, bounded, log
from capgate.errors import JSON, CapabilityError, ErrorCode

Emit: TypeAlias = Callable[
    [str, ApprovalRecord | None, Actor, Mapping[str, JSON]], Awaitable[None] | None
]

# The true reason of a refusal; what is not listed is no denial but the course of things.
_REASONS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNAUTHENTICATED: "unauthenticated",
    ErrorCode.FORBIDDEN: "forbidden",
    ErrorCode.APPROVAL_SELF_APPROVAL: "forbidden",
    ErrorCode.APPROVAL_INPUT_MISMATCH: "resume-mismatch",
}


def unheard(
    type_: str, record: ApprovalRecord | None, actor: Actor, data: Mapping[str, JSON]
) -> None:
    """Tell nobody: for engines without audit."""


class Teller:
    """Turns decisions and denials into events; a listener that fails changes nothing.

    Args:
        emit: Called with the event's type, the record (None when unknown), the actor and
            the data; what it returns is awaited.
        timeout: Seconds that one event may take.
    """

    __slots__ = ("_emit", "_timeout")

    def __init__(self, emit: Emit, *, timeout: float) -> None:
        """See the class."""
        self._emit = emit
        self._timeout = timeout

    async def decided(self, record: ApprovalRecord, decision: ApprovalDecision) -> None:
        """Tell of one answer; the actor of the event is the approver, inline or not."""
        data: dict[str, JSON] = {
            "approval_id": record.id,
            "approver": dict(decision.by.ref),
            "comment": decision.comment,
            "status": record.status.value,
        }
        type_ = "capability.approved" if decision.approved else "capability.rejected"
        await self._tell(type_, record, decision.by, data)

    async def denied(
        self,
        refusal: CapabilityError,
        approval_id: str,
        asker: Actor,
        record: ApprovalRecord | None = None,
    ) -> None:
        """Tell of an attempt that was refused for who made it, or for a record gone wrong."""
        reason = _REASONS.get(refusal.code)
        if refusal.code is ErrorCode.APPROVAL_NOT_FOUND:
            reason = "approval-unknown" if record is None else "resume-mismatch"
        if reason is None:
            return
        shown = refusal.code if refusal.exposed else ErrorCode.INTERNAL_ERROR
        data: dict[str, JSON] = {
            "approval_id": approval_id,
            "reason": reason,
            "code": refusal.code.value,
            "public_code": shown.value,
        }
        await self._tell("capability.denied", record, asker, data)

    async def _tell(
        self,
        type_: str,
        record: ApprovalRecord | None,
        actor: Actor,
        data: Mapping[str, JSON],
    ) -> None:
        try:
            told = self._emit(type_, record, actor, data)
            if told is not None:
                await bounded(told, self._timeout)
        except Exception as error:
            log("approval_event_lost", error=error, event_type=type_)
