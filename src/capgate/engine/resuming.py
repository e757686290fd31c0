"""Beginning a resumed call: the record is found and the caller may see it, or nothing is revealed.

Everything after that is the same plan as for a fresh call.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from capgate.call import Actor, Call, Claim, Request, capture, outcome_of
from capgate.engine.calling import check
from capgate.engine.texts import plain
from capgate.errors import CapabilityError, ErrorCode, refusal
from capgate.pipeline import Approval, plan_refusal

if TYPE_CHECKING:
    from capgate.approvals import ApprovalRecord
    from capgate.call import Outcome
    from capgate.engine.calling import Caller
    from capgate.engine.registry import Registry
    from capgate.pipeline import Plan, Runtime


class _Refusal(NamedTuple):
    """Why nothing is resumed: what the caller gets, what the audit is told, the record if known."""

    error: CapabilityError
    denial: str | None = None
    record: ApprovalRecord | None = None


class Resuming:
    """Resumes approved calls of one engine."""

    __slots__ = ("_caller", "_registry", "_runtime")

    def __init__(self, registry: Registry, caller: Caller, runtime: Runtime) -> None:
        """Bind to the engine's parts."""
        self._registry = registry
        self._caller = caller
        self._runtime = runtime

    async def run(
        self, approval_id: object, expected_surface: str | None, claim: Claim, request: Request
    ) -> Outcome[Any]:
        """Carry one resumed call to its end and return its outcome.

        Raises:
            TypeError: The caller said something that cannot be.
            RuntimeError: The engine has been closed.
        """
        self._caller.check_open()
        id_ = _text("approval_id", approval_id)
        surface = None
        if expected_surface is not None:
            surface = _text("expected_surface", expected_surface)
        _, actor, _ = claim
        check(request, "direct", actor=actor, authenticator=False)
        found = await self._find(id_, actor, surface)
        if isinstance(found, _Refusal):
            call, plan = self._refuse(found, surface, claim, request)
        else:
            call, plan = self._take_up(found, claim, request)
        call.approval_id = id_
        call.resumed = True
        return await self._caller.carry(call, plan, outcome_of)

    async def _find(
        self, id_: str, claimed: object, surface: str | None
    ) -> ApprovalRecord | _Refusal:
        """Return the record if the caller is who it is bound to; the actor is judged first."""
        try:
            actor = None if claimed is None else capture(claimed)
        except Exception as error:
            return _Refusal(refusal(ErrorCode.UNAUTHENTICATED, error), "unauthenticated")
        try:
            record = await self._runtime.desk.store.get(id_)
        except CapabilityError as outage:
            return _Refusal(outage)
        if record is None:
            return _Refusal(refusal(ErrorCode.APPROVAL_NOT_FOUND), "approval-unknown")
        if not _matches(record, actor, surface):
            return _Refusal(refusal(ErrorCode.APPROVAL_NOT_FOUND), "resume-mismatch", record)
        if not _names_a_capability(record):
            altered = refusal(ErrorCode.APPROVAL_INPUT_MISMATCH, reason="record altered")
            return _Refusal(altered, None, record)
        return record

    def _refuse(
        self, refused: _Refusal, surface: str | None, claim: Claim, request: Request
    ) -> tuple[Call, Plan]:
        def refuse(call: Call) -> None:
            call.denial = refused.denial
            raise refused.error

        plan = plan_refusal(refuse, Approval(), self._runtime)
        record = refused.record
        if record is None:
            return self._caller.begin("", plan, surface or "direct", claim, request), plan
        request.correlation_id = record.correlation_id
        surface = surface or record.surface
        call = self._caller.begin(record.capability_id, plan, surface, claim, request)
        return call, plan

    def _take_up(self, record: ApprovalRecord, claim: Claim, request: Request) -> tuple[Call, Plan]:
        request.correlation_id = record.correlation_id
        request.idempotency_key = _key_of(record)
        _, plan = self._registry.plan(record.capability_id, record.surface)
        call = self._caller.begin(record.capability_id, plan, record.surface, claim, request)
        if call.identity is None:
            # For the audit only: authentication establishes who this is today.
            call.actor = record.actor
        call.approval = record
        call.claim_key = record.idempotency_key
        call.input_hash = record.input_hash
        return call, plan


def _text(name: str, value: object) -> str:
    text = plain(value)
    if text is None:
        raise TypeError(f"{name} must be a str, got {type(value).__name__}")
    return text


def _matches(record: ApprovalRecord, actor: Actor | None, surface: str | None) -> bool:
    # Nobody knows who is anonymous: no anonymous caller is the requester.
    if actor is not None and (actor != record.actor or actor.kind == "anonymous"):
        return False
    return surface is None or surface == record.surface


def _names_a_capability(record: ApprovalRecord) -> bool:
    """Tell whether a record says what to look up; its integrity is checked by the plan."""
    named = cast("tuple[object, object]", (record.capability_id, record.surface))
    return all(isinstance(name, str) for name in named)


def _key_of(record: ApprovalRecord) -> str | None:
    """Return the caller's own idempotency key from the scoped one, None if it is no such thing."""
    try:
        key: object = json.loads(record.idempotency_key or "")[-1]
    except Exception:
        # Altered: the plan refuses the record, this is only not the place for it.
        return None
    return key if isinstance(key, str) else None
