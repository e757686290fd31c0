"""Beginning a resumed call: the record is found and the caller may see it, or nothing is revealed.

Everything after that is the same plan as for a fresh call.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from capgate.call import Actor, Call, Request, capture
from capgate.engine.calling import check
from capgate.errors import CapabilityError, ErrorCode
from capgate.pipeline import Approval, plan_refusal

if TYPE_CHECKING:
    from capgate.approvals import ApprovalRecord
    from capgate.engine.calling import Caller
    from capgate.engine.registry import Registry
    from capgate.pipeline import Plan, Runtime


class Resuming:
    """Resumes approved calls of one engine."""

    __slots__ = ("_caller", "_registry", "_runtime")

    def __init__(self, registry: Registry, caller: Caller, runtime: Runtime) -> None:
        """Bind to the engine's parts."""
        self._registry = registry
        self._caller = caller
        self._runtime = runtime

    async def run(
        self, approval_id: object, request: Request, expected_surface: str | None
    ) -> Call:
        """Carry one resumed call to its end and return its record."""
        if not isinstance(approval_id, str):
            raise TypeError(f"approval_id must be a str, got {type(approval_id).__name__}")
        check(request, expected_surface or "direct", authenticator=False)
        record: ApprovalRecord | None = None
        refusal: CapabilityError | None = None
        try:
            record = await self._runtime.desk.store.get(approval_id)
        except CapabilityError as error:
            refusal = error
        if record is None or refusal is not None:
            call, plan = self._unknown(request, expected_surface, refusal)
        else:
            call, plan = self._known(record, request, expected_surface)
        call.approval_id = approval_id
        call.resumed = True
        await self._caller.carry(call, plan)
        return call

    def _unknown(
        self, request: Request, surface: str | None, refusal: CapabilityError | None
    ) -> tuple[Call, Plan]:
        error = refusal or CapabilityError(ErrorCode.APPROVAL_NOT_FOUND)
        denial = "approval-unknown" if refusal is None else None
        plan = self._refusal(error, denial)
        return self._caller.begin(request, "", plan, surface or "direct"), plan

    def _known(
        self, record: ApprovalRecord, request: Request, surface: str | None
    ) -> tuple[Call, Plan]:
        refusal = _guards(record, request, surface)
        request.correlation_id = record.correlation_id
        request.idempotency_key = _key_of(record)
        if refusal is not None:
            error, denial = refusal
            plan = self._refusal(error, denial)
            call = self._caller.begin(
                request, record.capability_id, plan, surface or record.surface
            )
            return call, plan
        _, plan = self._registry.plan(record.capability_id, record.surface)
        call = self._caller.begin(request, record.capability_id, plan, record.surface)
        if call.identity is None:
            # For the audit only: authentication establishes who this is today.
            call.actor = record.actor
        call.approval = record
        call.claim_key = record.idempotency_key
        return call, plan

    def _refusal(self, error: CapabilityError, denial: str | None) -> Plan:
        def refuse(call: Call) -> None:
            call.denial = denial
            raise error

        return plan_refusal(refuse, Approval(), self._runtime)


def _guards(
    record: ApprovalRecord, request: Request, surface: str | None
) -> tuple[CapabilityError, str] | None:
    """Return the refusal where the caller is not who the record is bound to."""
    if request.actor is not None:
        try:
            actor: Actor = capture(request.actor)
        except Exception as error:
            refusal = CapabilityError(ErrorCode.UNAUTHENTICATED)
            refusal.__cause__ = error
            return refusal, "unauthenticated"
        # Nobody knows who is anonymous: no anonymous caller is the requester.
        if actor != record.actor or actor.kind == "anonymous":
            return CapabilityError(ErrorCode.APPROVAL_NOT_FOUND), "resume-mismatch"
    if surface is not None and surface != record.surface:
        return CapabilityError(ErrorCode.APPROVAL_NOT_FOUND), "resume-mismatch"
    return None


def _key_of(record: ApprovalRecord) -> str | None:
    """Return the caller's own idempotency key from the scoped one."""
    if record.idempotency_key is None:
        return None
    key: str = json.loads(record.idempotency_key)[-1]
    return key
