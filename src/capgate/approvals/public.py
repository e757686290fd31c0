"""The only form in which a request for approval may leave the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from capgate.approvals.record import ApprovalRecord
    from capgate.errors import JSON

_NO_REASON: Final = "This operation needs approval."
_ENDINGS: Final = (".", "!", "?")


def public_approval(record: ApprovalRecord) -> dict[str, JSON]:
    """Return what a client may see of a request: never its input, actor or approvers."""
    return {
        "id": record.id,
        "capability": record.capability_id,
        "message": _message(record.reasons),
        "expires_at": record.expires_at.isoformat(),
        "status": record.status.value,
    }


def _message(reasons: tuple[str, ...]) -> str:
    if len(reasons) == 1:
        return reasons[0]
    return " ".join(_sentence(reason) for reason in reasons) or _NO_REASON


def _sentence(reason: str) -> str:
    return reason if reason.endswith(_ENDINGS) else f"{reason}."
