"""Requests that answer themselves, for tests that are not about approvals.

Only who answers is faked: the record, its binding, its audit and the grant are the engine's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from capgate.approvals import (
    ApprovalConfig,
    ApprovalDecision,
    ApprovalStatus,
    ApprovalStore,
    MemoryApprovals,
    RuleBook,
)
from capgate.errors import ConfigurationError
from capgate.testing.actors import approver_of

if TYPE_CHECKING:
    from capgate.approvals import ApprovalRecord
    from capgate.call import ApprovalRequired, Outcome
    from capgate.capability import AccessRequest, AccessRule
    from capgate.engine import Engine
    from capgate.errors import JSON

Approving: TypeAlias = Literal["auto-approve", "auto-reject"] | ApprovalStore | ApprovalConfig

APPROVER: Final = "auto-approver"
ANSWERS: Final = {"auto-approve": True, "auto-reject": False}


class AutoRules(RuleBook):
    """Approver rules that admit the automatic approver besides whom they admit anyway."""

    __slots__ = ()

    def resolve(self, reference: JSON) -> AccessRule | None:
        """Return the rule, widened."""
        rule = super().resolve(reference)

        def widened(request: AccessRequest) -> Any:
            if request.actor.kind == "user" and request.actor.id.startswith(APPROVER):
                return True
            return rule is not None and rule(request)

        return widened


class AutoAnswer:
    """Gives every request the same answer.

    Within the call, through the engine's inline handler. A request that needs several approvers
    cannot be answered there: it suspends, and `settle` answers and resumes it.
    """

    __slots__ = ("_approved",)

    def __init__(self, *, approved: bool) -> None:
        """Answer yes or no."""
        self._approved = approved

    async def inline(self, record: ApprovalRecord) -> ApprovalDecision | None:
        """Answer one request, as an `ApprovalConfig` handler."""
        if record.quorum > 1:
            return None
        return ApprovalDecision(self._approved, approver_of(record, APPROVER))

    async def settle(
        self, engine: Engine[Any], waiting: ApprovalRequired, **options: Any
    ) -> Outcome[Any]:
        """Answer a call that waits, as often as it takes, and resume it."""
        desk = engine.approvals
        answer = desk.approve if self._approved else desk.reject
        record = await desk.get(waiting.approval.id)
        while record.status is ApprovalStatus.PENDING:
            record = await answer(record.id, by=approver_of(record, APPROVER))
        return await engine.attempt_resume(record.id, **options)


def approvals_for(
    own: object, wanted: Approving | None
) -> tuple[ApprovalConfig, AutoAnswer | None]:
    """Return how a test's engine asks for approvals, and who answers by itself.

    Args:
        own: What the application's engine was given.
        wanted: What the test wants. None: requests wait in a new store in memory.

    Raises:
        ConfigurationError: The test wants what there is not.
    """
    kept = own if isinstance(own, ApprovalConfig) else ApprovalConfig()
    if isinstance(wanted, ApprovalConfig):
        return wanted, None
    if isinstance(wanted, str):
        if wanted not in ANSWERS:
            raise ConfigurationError(f"approvals must be a store or one of {list(ANSWERS)}")
        auto = AutoAnswer(approved=ANSWERS[wanted])
        return replace(kept, store=MemoryApprovals(), handler=auto.inline), auto
    return replace(kept, store=MemoryApprovals() if wanted is None else wanted), None
