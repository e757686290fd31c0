"""Where private failures are told: to the application's own hook, else to the `capgate` logger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from capgate.audit import AuditEvent, Auditor, freeze
from capgate.capability import ContractViolation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from capgate.approvals import ApprovalRecord, Emit
    from capgate.call import Actor, Clock
    from capgate.errors import JSON, CapabilityError


def reporter(hook: Callable[[CapabilityError], object] | None) -> Callable[[CapabilityError], None]:
    """Return what reports an internal error; a hook that fails is reported itself."""

    def report(error: CapabilityError) -> None:
        if hook is None:
            log_internal(error)
            return
        try:
            hook(error)
        except Exception as broken:
            structlog.get_logger("capgate").error(
                "internal_error_hook_failed", error_type=type(broken).__name__
            )
            log_internal(error)

    return report


def log_internal(error: CapabilityError) -> None:
    """Log one private failure with its traceback; of a broken contract only the issues."""
    log = structlog.get_logger("capgate")
    facts = {
        "code": error.code.value,
        "stage": error.stage.value,
        "execution_id": error.execution_id,
        "reason": error.reason,
    }
    cause = error.__cause__
    if isinstance(cause, ContractViolation):
        log.error("contract_broken", **facts, issues=cause.issues)
    else:
        log.error("internal_error", **facts, exc_info=cause)


def teller(auditor: Auditor, clock: Clock) -> Emit:
    """Return how the approval desk records what was decided: as the approver's own act."""

    def emit(
        kind: str, record: ApprovalRecord | None, actor: Actor, data: Mapping[str, JSON]
    ) -> Awaitable[None] | None:
        if not auditor.active:
            return None
        return auditor.emit(
            AuditEvent(
                kind,
                clock.now(),
                surface=None if record is None else record.surface,
                actor=actor.ref,
                capability_id=None if record is None else record.capability_id,
                correlation_id=None if record is None else record.correlation_id,
                input_hash=None if record is None else record.input_hash,
                data=freeze(data),
            )
        )

    return emit
