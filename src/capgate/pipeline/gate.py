"""Asking for approval: the record is made, proven restorable, stored, and the call suspends.

Nobody decides here, except that an inline handler may answer within the call, through the same
desk and under the same rules as everybody.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from capgate.approvals import (
    ApprovalDecision,
    ApprovalRecord,
    ApprovalStatus,
    MergedRequirement,
    Requirement,
    bind,
    merge,
)
from capgate.call import Interrupted, Overrun, Stray, bounded, call_bounded, stopped
from capgate.capability import ContractViolation, input_hash
from capgate.errors import CapabilityError, ErrorCode, FailureStage
from capgate.pipeline.evidence import frozen
from capgate.pipeline.grant import release_grant

if TYPE_CHECKING:
    from capgate.approvals import ApprovalHandler
    from capgate.call import Call
    from capgate.capability import ApprovalRule
    from capgate.errors import JSON
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime
    from capgate.policies import Decision


class Suspend(Exception):
    """The call waits for the approval that the call's record now names."""


def requirement_of(decision: Decision) -> Requirement:
    """Return what a policy's decision demands."""
    return Requirement(
        reason=decision.reason or "",
        type=decision.type,
        expires_in=decision.expires_in,
        approvers=decision.approvers,
        allow_self=decision.allow_self,
    )


def requirement_of_rule(rule: ApprovalRule, title: str) -> Requirement:
    """Return what the capability itself demands."""
    return Requirement(
        reason=rule.reason or f"{title} needs approval.",
        type=rule.type,
        expires_in=rule.expires_in,
        approvers=rule.approvers,
        allow_self=rule.allow_self,
        quorum=rule.quorum,
    )


class Gate:
    """Asks for the approval of one capability's calls."""

    __slots__ = ("_capability", "_contract", "_runtime")

    def __init__(self, capability: Enrolled, runtime: Runtime) -> None:
        """Bind to the capability's contract."""
        self._capability = capability
        self._contract = capability.definition.contract
        self._runtime = runtime

    async def ask(self, call: Call, requirements: tuple[Requirement, ...]) -> None:
        """Return when the call may go on, because an inline handler approved it.

        Raises:
            Suspend: The request is stored and waits.
            Interrupted: The call has been stopped.
            CapabilityError: APPROVAL_UNSERIALIZABLE_INPUT, APPROVAL_UNAVAILABLE, what became of
                the approval this call runs under, or what an inline answer ran into.
        """
        if stopped(call):
            raise Interrupted
        record = await self._record(call, requirements)
        if call.dry_run:
            call.suspended = record
            raise Suspend
        if call.approval is None:
            await self._runtime.desk.store.create(record)
        else:
            await call.watch.shielded(self._replace(call, call.approval, record))
        await self._answer_inline(call, record)

    async def _replace(self, call: Call, granted: ApprovalRecord, record: ApprovalRecord) -> None:
        """Store a request in the place of a grant, which is spent: one operation, one approval."""
        store, now = self._runtime.desk.store, self._runtime.clock.now
        try:
            await store.consume(granted.id, call.execution_id, now())
        except CapabilityError as error:
            if error.code is ErrorCode.APPROVAL_UNAVAILABLE:
                await release_grant(call, self._runtime)
            raise
        try:
            await store.create(record)
        except CapabilityError:
            if await self._undone(record):
                await release_grant(call, self._runtime)
            else:
                call.burnt = True
            raise

    async def _undone(self, record: ApprovalRecord) -> bool:
        """Make sure that a request whose storing failed cannot be answered; False if unknown."""
        store = self._runtime.desk.store
        try:
            stored = await store.get(record.id)
            if stored is not None and stored.binding == record.binding:
                await store.withdraw(record.id, self._runtime.clock.now())
        except CapabilityError as error:
            self._runtime.report(error)
            return False
        return True

    async def _record(self, call: Call, requirements: tuple[Requirement, ...]) -> ApprovalRecord:
        merged = merge(requirements, default_window=self._runtime.approval_window)
        plain, digest = self._prove(call)
        call.input_hash = digest
        draft = self._draft(call, merged, plain, digest)
        shown = await self._shown(call, plain)
        draft = replace(draft, shown_input=shown)
        try:
            return replace(draft, binding=bind(draft, self._runtime.approvals.keys))
        except (TypeError, ValueError) as error:
            raise CapabilityError(ErrorCode.APPROVAL_UNSERIALIZABLE_INPUT) from error

    def _prove(self, call: Call) -> tuple[JSON, str]:
        """Show now that resume will get exactly this value, so that it is no surprise later."""
        try:
            plain = self._contract.prove_input(call.value)
            return plain, input_hash(plain)
        except (ContractViolation, ValueError) as error:
            raise CapabilityError(ErrorCode.APPROVAL_UNSERIALIZABLE_INPUT) from error

    def _draft(
        self, call: Call, merged: MergedRequirement, plain: JSON, digest: str
    ) -> ApprovalRecord:
        view = self._capability.view
        now = self._runtime.clock.now()
        granted = call.approval
        # What has been signed already counts on: it is not asked for again.
        reasons, types = ((), ()) if granted is None else (granted.reasons, granted.types)
        return ApprovalRecord(
            id=self._runtime.new_approval_id(),
            capability_id=call.capability_id,
            surface=call.surface,
            actor=call.actor,
            input=plain,
            shown_input=None,
            input_hash=digest,
            contract=view.fingerprint,
            reasons=tuple(dict.fromkeys((*merged.reasons, *reasons))),
            types=tuple(dict.fromkeys((*types, *merged.types))),
            risk=view.risk,
            side_effect=view.side_effect,
            correlation_id=call.correlation_id,
            requested_at=now,
            expires_at=now + timedelta(seconds=merged.expires_in),
            approver_rules=tuple(self._runtime.rulebook.register(rule) for rule in merged.rules),
            allow_self=merged.allow_self,
            quorum=merged.quorum,
            idempotency_key=call.claim_key,
        )

    async def _shown(self, call: Call, plain: JSON) -> JSON:
        redact = self._capability.definition.redact
        if redact is None or redact.approval_input is None:
            return plain
        copy = deepcopy(plain)
        try:
            return await call_bounded(
                redact.approval_input, copy, seconds=self._runtime.policy_timeout, call=call
            )
        except (Overrun, Stray, Exception) as error:
            raise CapabilityError(ErrorCode.INTERNAL_ERROR, stage=FailureStage.APPROVAL) from error

    async def _answer_inline(self, call: Call, record: ApprovalRecord) -> None:
        try:
            decision = await self._ask_inline(call, record)
        except GeneratorExit:
            raise  # a closed coroutine can await nothing
        except BaseException:
            # Stopped meanwhile: the store holds the request all the same.
            await self._tell(call, record, suspended=False)
            raise
        # An answer that leaves it pending is followed by a second event, the terminal one.
        await self._tell(call, record, suspended=decision is None)
        if decision is not None:
            desk = self._runtime.desk
            answer = desk.approve if decision.approved else desk.reject
            record = await answer(record.id, by=decision.by, comment=decision.comment)
            if record.status is ApprovalStatus.APPROVED:
                call.approval = record
                return
            if record.status is ApprovalStatus.REJECTED:
                raise CapabilityError(ErrorCode.APPROVAL_REJECTED)
            await self._tell(call, record, suspended=True)
        call.suspended = record
        raise Suspend

    async def _ask_inline(self, call: Call, record: ApprovalRecord) -> ApprovalDecision | None:
        """Ask the handler; a late, broken or malformed answer is no answer."""
        handler = self._runtime.approvals.handler
        if handler is None:
            return None
        seconds = (record.expires_at - record.requested_at).total_seconds()
        try:
            return await bounded(_answer(handler, record), seconds, call)
        except (Overrun, Stray, Exception) as error:
            self._report(error)
            return None

    def _report(self, cause: BaseException) -> None:
        error = CapabilityError(ErrorCode.INTERNAL_ERROR, stage=FailureStage.APPROVAL)
        error.__cause__ = cause
        self._runtime.report(error)

    async def _tell(self, call: Call, record: ApprovalRecord, *, suspended: bool) -> None:
        call.told_suspended = suspended
        evidence = self._runtime.evidence
        if not evidence.active:
            return
        data = frozen(
            approval_id=record.id,
            reasons=record.reasons,
            types=record.types,
            expires_at=record.expires_at.isoformat(),
            suspended=suspended,
            policy_decisions=call.decisions,
            **({} if call.approval is None else {"replaces": call.approval.id}),
        )
        tell = evidence.tell_strictly if suspended and evidence.strict else evidence.note
        noted = tell("capability.approval_requested", call, data)
        if noted is not None:
            await call.watch.shielded(noted)


async def _answer(handler: ApprovalHandler, record: ApprovalRecord) -> ApprovalDecision | None:
    """Return a copy of what a handler answered, checked like one just made."""
    given = await handler(record.copy())
    if given is None:
        return None
    if type(given) is not ApprovalDecision:
        raise TypeError(f"an approval handler answered {type(given).__name__}")
    return ApprovalDecision(given.approved, given.by, given.comment)
