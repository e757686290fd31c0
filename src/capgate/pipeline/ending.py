"""The exit of every call: one outcome, one terminal event, and what was waiting for them.

Here a failure meets the normaliser; nothing after this changes what it became.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final, cast

from capgate.call import (
    Cause,
    Halted,
    Interrupted,
    first,
    is_closing,
    resume_native,
    sole_leaf,
)
from capgate.capability import READ_ONLY, ContractViolation
from capgate.errors import (
    CapabilityError,
    Effect,
    ErrorCode,
    class_failure,
    facts_of,
    is_exit,
    is_own,
    seal,
    stamp,
)
from capgate.idempotency import restore_error
from capgate.pipeline.claiming import Replayed, settle
from capgate.pipeline.evidence import frozen
from capgate.pipeline.gate import Suspend
from capgate.pipeline.grant import spent
from capgate.pipeline.settling import call_back, call_back_at_exit, contained
from capgate.pipeline.telling import cancelled_data, completed_data, denied_data, failed_data

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.call import Call
    from capgate.errors import FailureStage
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime

# What a gate raises: it says that the call was stopped, not why.
_GATES: Final = (Interrupted, Halted)
_STOPPED: Final = frozenset({ErrorCode.TIMEOUT, ErrorCode.CANCELLED})
# What a custom stage refuses with, as the audit's reason of a denial.
_DENIALS: Final = {
    ErrorCode.CAPABILITY_NOT_FOUND: "hidden",
    ErrorCode.UNAUTHENTICATED: "unauthenticated",
    ErrorCode.FORBIDDEN: "forbidden",
    ErrorCode.POLICY_DENIED: "policy-denied",
    ErrorCode.POLICY_FAILED: "policy-failed",
    ErrorCode.RATE_LIMITED: "rate-limited",
}


class Ending:
    """Ends the calls of one capability."""

    __slots__ = ("_contract", "_evidence", "_harmless", "_idempotent", "_runtime", "_tell", "done")

    done: Effect

    def __init__(self, runtime: Runtime, capability: Enrolled | None) -> None:
        """Bind to the capability's side effect; None for what is unknown."""
        self._runtime = runtime
        self._evidence = runtime.evidence
        self._contract = None if capability is None else capability.definition.contract
        view = None if capability is None else capability.view
        self._harmless = view is not None and view.side_effect in READ_ONLY
        self.done = Effect.NONE if self._harmless else Effect.DONE
        self._idempotent = view is not None and view.idempotent
        # Whatever happens to a terminal event, the outcome stays.
        evidence = runtime.evidence
        self._tell = evidence.tell_strictly if evidence.strict else evidence.note

    def conclude(self, call: Call) -> Awaitable[None] | None:
        """Judge how the call ended, record it, and tell whoever waited for it.

        Returns:
            None when that is done; otherwise what must be awaited. Awaiting it raises only a
            native cancellation or an exit of the process, which go on from there.
        """
        raised = call.raised
        if raised is not None:
            call.raised = None
            if type(raised) is CapabilityError and call.step.core and not call.native():
                return self.refuse(call, raised)
            return self._interrupted(call, raised)
        call.effect = self.done
        noted = None
        if self._evidence.active:
            tell = self._tell
            noted = tell("capability.completed", call, completed_data(call))
        if noted is None and call.claim_key is None and call.settling is None:
            return None
        return self.finish(call, noted)

    async def _interrupted(self, call: Call, raised: BaseException) -> None:
        kind = type(raised)
        if kind is Suspend:
            await self._suspend(call)
        elif kind is Replayed:
            await self._replay(call)
        elif is_closing(raised):
            self._close(call)
            if issubclass(kind, GeneratorExit):
                raise raised
        elif is_exit(raised):
            await self._exit(call, raised)
        else:
            await self._fail(call, raised)

    async def _suspend(self, call: Call) -> None:
        noted = None
        if not call.told_suspended and call.suspended is not None:
            data = frozen(approval_id=call.suspended.id, suspended=True, repeated=True)
            noted = (
                self._tell("capability.approval_requested", call, data)
                if self._evidence.active
                else None
            )
        await self.finish(call, noted)

    async def _replay(self, call: Call) -> None:
        stored = call.replay
        if stored is None or self._contract is None:
            raise LookupError("a replay without a stored outcome")
        call.replayed = True
        call.attempts = stored.attempts
        call.late = stored.late
        call.effect = Effect(stored.effect)
        if stored.error is not None:
            await self._concluded(call, restore_error(stored.error))
            return
        try:
            call.output = self._contract.restore_output(stored.output)
        except ContractViolation as violation:
            error = CapabilityError(ErrorCode.OUTPUT_INVALID)
            error.__cause__ = violation
            await self._concluded(call, error)
            return
        noted = None
        if self._evidence.active:
            noted = self._tell("capability.completed", call, completed_data(call))
        await self.finish(call, noted)

    async def _concluded(self, call: Call, error: CapabilityError) -> None:
        concluding = self.refuse(call, error)
        if concluding is not None:
            await concluding

    async def _fail(self, call: Call, raised: BaseException) -> None:
        call.rest()
        native = call.native()
        error = self._judged(call, raised, native=native)
        await self._settle(call, self._record(call, error, native=native))
        # The last step: nothing of ours may stand between the caller and its cancellation.
        if native or call.native():
            await resume_native(raised)

    def verdict(self, call: Call) -> tuple[str, str | None]:
        """Return what `explain` says of a step that ended the call."""
        raised = call.raised
        if type(raised) is Suspend:
            return "approval-required", None
        if raised is None or is_exit(raised) or call.native():
            raise raised or LookupError("nothing ended the call")
        call.error = self._judged(call, raised, native=False)
        return "refused", call.denial or call.error.code.value

    def _judged(self, call: Call, raised: BaseException, *, native: bool) -> CapabilityError:
        """Return the failure that `raised` stands for."""
        step = call.step
        if (step is None or step.core) and type(raised) is CapabilityError:
            return raised
        fired = first(call)
        if native or type(raised) in _GATES or (fired is not None and not call.returned):
            timed_out = fired is not None and fired.cause is Cause.DEADLINE
            error = CapabilityError(ErrorCode.TIMEOUT if timed_out else ErrorCode.CANCELLED)
            error.__cause__ = raised.__cause__ if type(raised) in _GATES else raised
            return error
        if step is not None and not step.core:
            return self._of_a_stage(call, step.failure_stage, sole_leaf(raised))
        stage = None if step is None else step.failure_stage
        error = CapabilityError(ErrorCode.INTERNAL_ERROR, stage=stage)
        error.__cause__ = raised
        return error

    def _of_a_stage(
        self, call: Call, stage: FailureStage, raised: BaseException
    ) -> CapabilityError:
        """Return the failure of a custom stage."""
        # Only this execution's own: a nested one's error has an execution id already. Others may
        # hold on to what was raised, so it is copied.
        own = is_own(raised) and cast("CapabilityError", raised).execution_id is None
        error = stamp(cast("CapabilityError", raised)) if own else class_failure(stage, raised)
        if not call.entered and call.denial is None:
            call.denial = _DENIALS.get(error.code)
        return error

    def _effect(self, call: Call) -> Effect:
        if self._harmless or not call.entered:
            return Effect.NONE
        if call.returned:
            return Effect.DONE
        # An attempt that never got to its handler has no deadline.
        untouched = call.harmless or call.deadline == inf
        return Effect.NONE if untouched and not call.doubt else Effect.UNKNOWN

    def refuse(self, call: Call, error: CapabilityError) -> Awaitable[None] | None:
        """Record a failure that was made for this call; awaitable as `conclude`."""
        noted = self._record(call, error)
        if noted is None and call.claim_key is None and call.settling is None:
            return None
        return self.finish(call, noted)

    def turn_away(self, call: Call, error: CapabilityError) -> Awaitable[None] | None:
        """Do what `refuse` does, for what a gate of a usual call returned: nothing has run yet."""
        facts = facts_of(error)
        if facts.execution_id is None:
            seal(error, call.execution_id, Effect.NONE)
        call.error = error
        noted = None
        if self._evidence.active:
            noted = self._tell("capability.denied", call, denied_data(call, facts))
        if not facts.exposed:
            self._runtime.report(error)
        return None if noted is None and call.settling is None else self.finish(call, noted)

    def _record(
        self, call: Call, error: CapabilityError, *, native: bool = False
    ) -> Awaitable[None] | None:
        """Write the failure on the call, tell the audit, report what is private."""
        if not call.replayed:
            call.effect = self._effect(call)
        if call.burnt:
            error = spent(error)
        call.error = seal(error, error.execution_id or call.execution_id, call.effect)
        noted = self._tell_failure(call, error, native=native) if self._evidence.active else None
        if not error.exposed and not call.replayed:
            self._runtime.report(error)
        return noted

    def _tell_failure(
        self, call: Call, error: CapabilityError, *, native: bool
    ) -> Awaitable[None] | None:
        tell = self._tell
        if error.code in _STOPPED:
            return tell("capability.cancelled", call, cancelled_data(call, native=native))
        if call.denial is not None and not call.entered:
            return tell("capability.denied", call, denied_data(call, facts_of(error)))
        return tell("capability.failed", call, failed_data(call, error))

    async def _exit(self, call: Call, raised: BaseException) -> None:
        call.rest()
        call.effect = self._effect(call)
        stage = None if call.step is None else call.step.failure_stage
        error = CapabilityError(ErrorCode.INTERNAL_ERROR, stage=stage)
        call.error = seal(error, call.execution_id, call.effect)
        noted = None
        if self._evidence.active:
            noted = self._tell("capability.failed", call, failed_data(call, call.error))
        await self._settle(call, noted)
        raise raised

    def _close(self, call: Call) -> None:
        """End a call whose coroutine is being closed: from here on nothing can be awaited."""
        call.rest()
        if call.told_suspended:
            return
        call.effect = self._effect(call)
        error = CapabilityError(ErrorCode.CANCELLED)
        call.error = seal(error, call.execution_id, call.effect)
        data = cancelled_data(call, native=True)
        self._evidence.note_at_exit("capability.cancelled", call, data)
        call_back_at_exit(call)

    async def finish(self, call: Call, noted: Awaitable[None] | None) -> None:
        """Settle the call; a cancellation that the shields held back goes on afterwards."""
        await self._settle(call, noted)
        if call.native():
            await resume_native(None)

    async def _settle(self, call: Call, noted: Awaitable[None] | None) -> None:
        """Deliver the event, settle the key, run what stages left, last first; all shielded."""
        shielded = call.watch.shielded
        if noted is not None:
            await shielded(noted)
        if call.claim_key is not None and not call.dry_run:
            if call.error is None and call.suspended is None and self._contract is not None:
                call.output_json = self._contract.dump_output(call.output)
            keeping = settle(call, self._runtime, call.error, idempotent=self._idempotent)
            await shielded(contained(call, keeping))
        await call_back(call, self._runtime.policy_timeout)
