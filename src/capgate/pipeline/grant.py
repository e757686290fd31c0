"""The single-use yes: spent right before the handler, given back if the handler is not reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capgate.call import Interrupted, stopped
from capgate.errors import CapabilityError, ErrorCode
from capgate.pipeline.handler_start import start_event, tell_start

if TYPE_CHECKING:
    from capgate.call import Call
    from capgate.pipeline.runtime import Runtime


async def spend_grant(call: Call, runtime: Runtime) -> None:
    """Consume the approval, atomically, for this execution.

    Raises:
        CapabilityError: Somebody else spent it, it expired, or the store or a strict audit
            failed.
    """
    if call.approval is None:
        return
    started = await start_event(call, runtime)
    # Noted first: if the answer of the store is lost, the spending may have happened.
    call.spent = True
    try:
        call.approval = await runtime.desk.store.consume(
            call.approval.id, call.execution_id, runtime.clock.now(), started=started
        )
    except CapabilityError as error:
        call.spent = error.code is ErrorCode.APPROVAL_UNAVAILABLE
        raise
    await tell_start(call, started, runtime)
    if stopped(call):
        raise Interrupted


async def release_grant(call: Call, runtime: Runtime) -> None:
    """Give the approval back; if the store does not answer it stays spent, as the error says."""
    if call.approval is None:
        return
    try:
        await runtime.desk.store.release(call.approval.id, call.execution_id)
    except CapabilityError as error:
        # Any other answer is a definite one: this execution does not hold it.
        if error.code is ErrorCode.APPROVAL_UNAVAILABLE:
            call.burnt = True
            runtime.report(error)
            return
    call.spent = False


def spent(error: CapabilityError) -> CapabilityError:
    """Return the error of a call whose grant is gone: asking again cannot help."""
    final = CapabilityError(
        error.code,
        error.public_message,
        stage=error.stage,
        retryable=False,
        exposed=error.exposed,
        reason=error.reason,
    )
    final.__cause__ = error.__cause__
    return final
