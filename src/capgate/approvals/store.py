"""What every store of approvals must do, and the one place that says what a status refuses.

No store lives here: `memory` has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from capgate.approvals.record import ApprovalDecision, ApprovalRecord, ApprovalStatus, changed
from capgate.errors import CapabilityError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from capgate.audit import AuditEvent


class ApprovalStore(Protocol):
    """Where requests for approval are kept.

    A governed refusal is a `CapabilityError` with the code named below. Anything else that
    escapes is an outage: callers see APPROVAL_UNAVAILABLE. Time is always the engine's `now`,
    never the store's own clock; an open record is expired once `now >= expires_at`. Records
    go in and come out detached: changing one that was handed over changes nothing stored.
    Each change is one atomic step, whatever the number of tasks, threads and processes.
    """

    @property
    def durable(self) -> bool:
        """Whether records outlive the process."""
        ...

    async def create(self, record: ApprovalRecord, /) -> None:
        """Keep a new record.

        Raises:
            ValueError: The id is taken.
        """
        ...

    async def get(self, approval_id: str, /) -> ApprovalRecord | None:
        """Return the record as stored, or None.

        Expiry is not applied: use `record.status_at(now)`.
        """
        ...

    async def decide(
        self, approval_id: str, /, decision: ApprovalDecision, now: datetime
    ) -> ApprovalRecord:
        """Add one decision to a pending record and return what it became.

        A rejection ends it at once. It is approved with the approval that makes `quorum`
        distinct approvers (by kind and id). Who is entitled was checked before.

        Raises:
            CapabilityError: APPROVAL_NOT_FOUND; APPROVAL_EXPIRED; APPROVAL_NOT_PENDING, also
                when this approver has approved already. Nothing has changed then.
        """
        ...

    async def consume(
        self, approval_id: str, /, execution_id: str, now: datetime
    ) -> ApprovalRecord:
        """Spend an approved, unexpired record: compare-and-set to consumed.

        Raises:
            CapabilityError: APPROVAL_NOT_FOUND, or what `check_resumable` raises.
        """
        ...

    async def release(self, approval_id: str, /, execution_id: str) -> ApprovalRecord:
        """Undo `consume`: back to approved, only for the execution that consumed it.

        Raises:
            CapabilityError: APPROVAL_NOT_FOUND; APPROVAL_CONSUMED when this execution does
                not hold it.
        """
        ...

    async def withdraw(self, approval_id: str, /, now: datetime) -> ApprovalRecord:
        """Take back a pending record: cancelled. Who may was checked before.

        Raises:
            CapabilityError: APPROVAL_NOT_FOUND, APPROVAL_EXPIRED or APPROVAL_NOT_PENDING.
        """
        ...

    async def find(
        self,
        status: ApprovalStatus | None = None,
        capability_id: str | None = None,
        actor_id: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[ApprovalRecord]:
        """Return at most `limit` matching records, oldest created first.

        `status` is the stored one: call `expire_due` first to have lapsed records right.
        `actor_id` is the requester's. `after` is the last id of the previous page: the order
        never changes, so no record is repeated or skipped; an unknown id gives an empty page.

        Raises:
            ValueError: The limit is below 1.
        """
        ...

    async def expire_due(self, now: datetime, /) -> int:
        """Mark pending and approved records past their expiry as expired; return how many."""
        ...


@runtime_checkable
class StartKeepingApprovals(ApprovalStore, Protocol):
    """A store on one database with the audit, as `Engine(store=…)` looks for it.

    It can keep the event that a handler starts in the transaction that spends the approval: after
    a crash nobody has to guess what was begun.
    """

    @property
    def keeps_starts(self) -> bool:
        """Whether it can."""
        ...

    async def consume(
        self,
        approval_id: str,
        /,
        execution_id: str,
        now: datetime,
        *,
        started: AuditEvent | None = None,
    ) -> ApprovalRecord:
        """Spend an approval as any store does, and keep `started` with that: both or neither.

        The audit's sink on the same database is not told of that event again.
        """
        ...


_RESUME_REFUSALS: Final[Mapping[ApprovalStatus, ErrorCode]] = {
    ApprovalStatus.PENDING: ErrorCode.APPROVAL_PENDING,
    ApprovalStatus.REJECTED: ErrorCode.APPROVAL_REJECTED,
    ApprovalStatus.EXPIRED: ErrorCode.APPROVAL_EXPIRED,
    ApprovalStatus.CANCELLED: ErrorCode.APPROVAL_CANCELLED,
    ApprovalStatus.CONSUMED: ErrorCode.APPROVAL_CONSUMED,
}
ALREADY_DECIDED: Final = "This approver has already approved the request."


def check_resumable(record: ApprovalRecord, now: datetime) -> None:
    """Refuse to run what is not approved and unexpired at that time.

    Raises:
        CapabilityError: APPROVAL_EXPIRED for any open record past its expiry, a pending one
            included; else APPROVAL_PENDING, _REJECTED, _CANCELLED or _CONSUMED.
    """
    refusal = _RESUME_REFUSALS.get(record.status_at(now))
    if refusal is not None:
        raise CapabilityError(refusal)


def check_decidable(record: ApprovalRecord, now: datetime) -> None:
    """Refuse to decide or withdraw what is not pending and unexpired at that time.

    Raises:
        CapabilityError: APPROVAL_EXPIRED or APPROVAL_NOT_PENDING.
    """
    status = record.status_at(now)
    if status is ApprovalStatus.EXPIRED:
        raise CapabilityError(ErrorCode.APPROVAL_EXPIRED)
    if status is not ApprovalStatus.PENDING:
        raise CapabilityError(ErrorCode.APPROVAL_NOT_PENDING)


def decided(record: ApprovalRecord, decision: ApprovalDecision, now: datetime) -> ApprovalRecord:
    """Return what one decision makes of a record: the rule of `ApprovalStore.decide`.

    A store reads, calls this, and writes, all in one atomic step.

    Raises:
        CapabilityError: As `ApprovalStore.decide`.
    """
    check_decidable(record, now)
    if decision.approved and decision.by in record.approvers():
        raise CapabilityError(ErrorCode.APPROVAL_NOT_PENDING, ALREADY_DECIDED)
    after = changed(record, decisions=(*record.decisions, decision))
    if not decision.approved:
        return changed(after, status=ApprovalStatus.REJECTED)
    complete = len(after.approvers()) >= after.quorum
    return changed(after, status=ApprovalStatus.APPROVED) if complete else after


def consumed(record: ApprovalRecord, execution_id: str, now: datetime) -> ApprovalRecord:
    """Return the record spent by an execution: the rule of `ApprovalStore.consume`.

    Raises:
        CapabilityError: As `check_resumable`.
    """
    check_resumable(record, now)
    return changed(record, status=ApprovalStatus.CONSUMED, consumed_by=execution_id)


def released(record: ApprovalRecord, execution_id: str) -> ApprovalRecord:
    """Return the record unspent: the rule of `ApprovalStore.release`.

    Raises:
        CapabilityError: APPROVAL_CONSUMED when the execution does not hold it.
    """
    if record.status is not ApprovalStatus.CONSUMED or record.consumed_by != execution_id:
        raise CapabilityError(ErrorCode.APPROVAL_CONSUMED)
    return changed(record, status=ApprovalStatus.APPROVED, consumed_by=None)


def withdrawn(record: ApprovalRecord, now: datetime) -> ApprovalRecord:
    """Return the record taken back: the rule of `ApprovalStore.withdraw`.

    Raises:
        CapabilityError: As `check_decidable`.
    """
    check_decidable(record, now)
    return changed(record, status=ApprovalStatus.CANCELLED)
