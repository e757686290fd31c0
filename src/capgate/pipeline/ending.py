"""The exit of every call: one outcome, one terminal event, and what was waiting for them.

Here a failure meets the normaliser; nothing after this changes what it became.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

from capgate.call import (
    Cause,
    Interrupted,
    Overrun,
    Stray,
    call_bounded,
    first,
    is_exit,
    resume_native,
)
from capgate.capability import ContractViolation
from capgate.errors import (
    CapabilityError,
    Effect,
    ErrorCode,
    class_failure,
    is_own,
    stamp,
)
from capgate.idempotency import restore_error
from capgate.pipeline.claiming import Replayed, settle
from capgate.pipeline.gate import Suspend
from capgate.pipeline.telling import cancelled_data, completed_data, failed_data, denied_data

if TYPE_CHECKING:
    from capgate.call import Call
    from capgate.pipeline.enrolled import Enrolled
    from capgate.errors import JSON
    from capgate.pipeline.runtime import Runtime

_STOPPED = frozenset({ErrorCode.TIMEOUT, ErrorCode.CANCELLED})


class Ending:
    """Ends the calls of one capability."""

    __slots__ = ("_contract", "_evidence", "_harmless", "_idempotent", "_runtime")

    def __init__(self, runtime: Runtime, capability: Enrolled | None) -> None:
        """Bind to the capability's side effect; None for what is unknown."""
        self._runtime = runtime
        self._evidence = runtime.evidence
        self._contract = None if capability is None else capability.definition.contract
        view = None if capability is None else capability.view
        self._harmless = view is not None and view.side_effect in {"none", "read"}
        self._idempotent = view is not None and view.idempotent

    async def settle(self, call: Call) -> None:
        """Judge how the call ended, record it, and tell whoever waited for it.

        Raises:
            BaseException: A native cancellation or an exit of the process goes on from here.
        """
        raised = call.raised
        if raised is None:
            await self._complete(call)
        elif isinstance(raised, Suspend):
            await self._suspend(call)
        elif isinstance(raised, Replayed):
            await self._replay(call)
        elif is_exit(raised):
            await self._exit(call, raised)
        else:
            await self._fail(call, raised)
        # The record must not keep the frames of what was raised alive.
        call.raised = None

    async def _complete(self, call: Call) -> None:
        call.effect = Effect.NONE if self._harmless else Effect.DONE
        if self._evidence.active:
            await self._tell(call, "capability.completed", completed_data(call))
        if call.claim_key is not None or call.has_settling:
            await self._finish(call)

    async def _suspend(self, call: Call) -> None:
        if not call.told_suspended and call.suspended is not None:
            record = call.suspended
            data = {"approval_id": record.id, "suspended": True, "repeated": True}
            await self._tell(call, "capability.approval_requested", data)
        await self._finish(call)

    async def _replay(self, call: Call) -> None:
        stored = call.replay
        if stored is None or self._contract is None:
            raise LookupError("a replay without a stored outcome")
        call.replayed = True
        call.attempts = stored.attempts
        call.late = stored.late
        call.effect = Effect(stored.effect)
        if stored.error is not None:
            await self._conclude(call, restore_error(stored.error))
            return
        try:
            call.output = self._contract.validate_output(stored.output)
        except ContractViolation as violation:
            error = CapabilityError(ErrorCode.OUTPUT_INVALID)
            error.__cause__ = violation
            await self._conclude(call, error)
            return
        await self._tell(call, "capability.completed", completed_data(call))
        await self._finish(call)

    async def _fail(self, call: Call, raised: BaseException) -> None:
        native = call.watch.native(call.baseline)
        error = self._judged(call, raised, native=native)
        call.effect = self._effect(call, error)
        await self._conclude(call, error, native=native)
        if native:
            # The last step: nothing of ours may stand between the caller and its cancellation.
            await resume_native(raised)

    def verdict(self, call: Call) -> tuple[str, str | None]:
        """Return what `explain` says of a step that ended the call."""
        raised = call.raised
        if isinstance(raised, Suspend):
            return "approval-required", None
        if raised is None or is_exit(raised) or call.watch.native(call.baseline):
            raise raised or LookupError("nothing ended the call")
        call.error = self._judged(call, raised, native=False)
        return "refused", call.denial or call.error.code.value

    def _judged(self, call: Call, raised: BaseException, *, native: bool) -> CapabilityError:
        """Return the failure that `raised` stands for."""
        step = call.step
        if is_own(raised):
            return raised  # type: ignore[return-value]  # is_own says so
        fired = first(call.guard, call.running)
        if native or isinstance(raised, Interrupted) or fired is not None or call.halted:
            timed_out = fired is not None and fired.cause is Cause.DEADLINE
            code = ErrorCode.TIMEOUT if timed_out else ErrorCode.CANCELLED
            error = CapabilityError(code)
        elif step.core:
            error = CapabilityError(ErrorCode.INTERNAL_ERROR, stage=step.failure_stage)
        else:
            error = class_failure(step.failure_stage, raised)
        error.__cause__ = raised
        return error

    def _effect(self, call: Call, error: CapabilityError) -> Effect:
        if self._harmless or not call.entered:
            return Effect.NONE
        if call.returned:
            return Effect.DONE
        return Effect.UNKNOWN if call.doubt else error.effect

    async def _conclude(
        self, call: Call, error: CapabilityError, *, native: bool = False
    ) -> None:
        if call.burnt:
            error = CapabilityError(error.code, retryable=False)
        call.error = stamp(error, execution_id=call.execution_id, effect=call.effect)
        if call.error.code in _STOPPED:
            await self._tell(call, "capability.cancelled", cancelled_data(call, native=native))
        elif call.denial is not None and not call.entered:
            await self._tell(call, "capability.denied", denied_data(call, call.error))
        else:
            await self._tell(call, "capability.failed", failed_data(call, call.error))
        if not call.error.exposed:
            self._runtime.report(call.error)
        await self._finish(call)

    async def _exit(self, call: Call, raised: BaseException) -> None:
        call.effect = self._effect(call, CapabilityError(ErrorCode.INTERNAL_ERROR, effect=Effect.UNKNOWN))
        if isinstance(raised, GeneratorExit):
            call.error = stamp(CapabilityError(ErrorCode.CANCELLED), execution_id=call.execution_id)
            self._evidence.note_at_exit(
                "capability.cancelled", call, cancelled_data(call, native=True)
            )
            raise raised
        error = CapabilityError(ErrorCode.INTERNAL_ERROR, stage=call.step.failure_stage)
        call.error = stamp(error, execution_id=call.execution_id, effect=call.effect)
        await self._tell(call, "capability.failed", failed_data(call, call.error))
        await self._finish(call)
        raise raised

    async def _tell(self, call: Call, kind: str, data: Mapping[str, JSON]) -> None:
        """Record the terminal event; whatever happens to it, the outcome stays."""
        if self._evidence.strict and not call.dry_run:
            await call.watch.shielded(self._evidence.tell_strictly(kind, call, data))
            return
        noted = self._evidence.note(kind, call, data)
        if noted is not None:
            await call.watch.shielded(noted)

    async def _finish(self, call: Call) -> None:
        """Keep or free the idempotency key, then run what stages left, last first; all shielded."""
        if call.claim_key is not None and not call.dry_run:
            if call.error is None and call.suspended is None and self._contract is not None:
                call.output_json = self._contract.dump_output(call.output)
            await call.watch.shielded(
                _contained(
                    call, settle(call, self._runtime, call.error, idempotent=self._idempotent)
                )
            )
        if call.has_settling:
            for callback in reversed(call.settling):
                ran = call_bounded(callback, seconds=self._runtime.policy_timeout)
                await call.watch.shielded(_contained(call, ran))


async def _contained(call: Call, work: Awaitable[None]) -> None:
    """Await what may record or release but never decide; its failure is reported."""
    try:
        await work
    except (Overrun, Stray, Exception) as error:
        call.logger.error("settle_failed", error_type=type(error).__name__, exc_info=error)
