"""Who may answer a request: the approver rules, evaluated so that any doubt refuses."""

from __future__ import annotations

import inspect
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING

from capgate.approvals.plain import is_object
from capgate.call import bounded
from capgate.capability import AccessRequest
from capgate.errors import JSON, CapabilityError, ErrorCode

if TYPE_CHECKING:
    from capgate.approvals.record import ApprovalRecord
    from capgate.approvals.rules import RuleBook
    from capgate.call import Actor
    from capgate.capability import AccessRule


async def check_entitled(
    record: ApprovalRecord,
    approver: Actor,
    *,
    rulebook: RuleBook,
    deps: object,
    within: float,
) -> None:
    """Refuse an approver who does not satisfy every rule of the record.

    Without rules any actor of kind `user` may answer; an anonymous one never. All rules
    together have `within` seconds.

    Raises:
        CapabilityError: FORBIDDEN; not exposed and with its cause when a rule is broken,
            too slow, or unknown to this process.
    """
    if approver.kind == "anonymous":
        raise CapabilityError(ErrorCode.FORBIDDEN)
    if not record.approver_rules:
        if approver.kind != "user":
            raise CapabilityError(ErrorCode.FORBIDDEN)
        return
    try:
        verdict = await bounded(_all_true(record, approver, rulebook, deps), within)
    except Exception as broken:
        raise CapabilityError(ErrorCode.FORBIDDEN, exposed=False) from broken
    if not verdict:
        raise CapabilityError(ErrorCode.FORBIDDEN)


async def _all_true(
    record: ApprovalRecord, approver: Actor, rulebook: RuleBook, deps: object
) -> bool:
    for rule in [_resolved(rulebook, reference) for reference in record.approver_rules]:
        answer = rule(_request(record, approver, deps))
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is not True:
            return False
    return True


def _resolved(rulebook: RuleBook, reference: JSON) -> AccessRule:
    rule = rulebook.resolve(reference)
    if rule is None:
        raise LookupError(f"no registered approver rule for {reference!r}")
    return rule


def _request(record: ApprovalRecord, approver: Actor, deps: object) -> AccessRequest:
    # A copy for each rule: what one of them changes, no other one and no store sees.
    seen = record.copy()
    fields: dict[str, JSON] = dict(seen.input) if is_object(seen.input) else {}
    return AccessRequest(
        capability_id=seen.capability_id,
        surface=seen.surface,
        actor=approver if approver.shared else deepcopy(approver),
        deps=deps,
        input=seen.input,
        arguments=MappingProxyType(fields),
        record=seen,
    )
