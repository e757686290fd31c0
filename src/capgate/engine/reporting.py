"""Where private failures are told: to the application's own hook, else to the `capgate` logger."""

from __future__ import annotations

from types import CoroutineType
from typing import TYPE_CHECKING, cast

from capgate.audit import AuditEvent, Auditor, freeze
from capgate.call import log
from capgate.capability import ContractViolation
from capgate.engine.traces import traceback_text
from capgate.errors import is_exit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from capgate.approvals import ApprovalRecord, Emit
    from capgate.call import Actor, Clock
    from capgate.errors import JSON, CapabilityError


def reporter(hook: Callable[[CapabilityError], object] | None) -> Callable[[CapabilityError], None]:
    """Return what reports an internal error; a hook that fails is reported itself."""
    if hook is None:
        return log_internal

    def report(error: CapabilityError) -> None:
        try:
            answer = hook(error)
        except BaseException as broken:
            if is_exit(broken):
                raise
            log("internal_error_hook_failed", error=broken)
            log_internal(error)
        else:
            # It ran only if it was called as what it is: a coroutine has not begun.
            if issubclass(type(answer), CoroutineType):
                cast("CoroutineType[object, object, object]", answer).close()
                log("internal_error_hook_failed", error_type="coroutine")
                log_internal(error)

    return report


def log_internal(error: CapabilityError) -> None:
    """Log one private failure with its traceback; of a broken contract only the issues."""
    facts: dict[str, JSON] = {
        "code": error.code.value,
        "stage": error.stage.value,
        "execution_id": error.execution_id,
        "reason": error.reason,
    }
    cause = error.__cause__
    if issubclass(type(cause), ContractViolation):
        log("contract_broken", **facts, issues=cast("ContractViolation", cause).issues)
    elif cause is None:
        log("internal_error", **facts)
    else:
        log("internal_error", **facts, exception=traceback_text(cause))


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
