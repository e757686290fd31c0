"""What lets a replay misbehave on purpose: approvals and an audit sink with a switch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from capgate.approvals import ApprovalDecision, ApprovalRecord, ApprovalStatus
from capgate.audit import AuditEvent
from capgate.stores import SqlApprovals, Store


class SwitchedSink:
    """A second sink, elsewhere: takes events while it is up, fails like a full disk otherwise."""

    def __init__(self) -> None:
        self.up = True

    def __call__(self, event: AuditEvent) -> None:
        """Take one event, and forget it.

        Raises:
            OSError: The sink is down.
        """
        if not self.up:
            raise OSError("no space left on device")


class FaultyApprovals:
    """The store's approvals, which can be down, or hand out an altered record."""

    durable = keeps_starts = True

    def __init__(self, kept: SqlApprovals) -> None:
        self._kept = kept
        self.up = True
        self.alter: Callable[[ApprovalRecord], ApprovalRecord] | None = None

    def _store(self) -> SqlApprovals:
        if not self.up:
            raise ConnectionError("approvals.internal does not answer")
        return self._kept

    async def create(self, record: ApprovalRecord, /) -> None:
        """See `ApprovalStore`."""
        await self._store().create(record)

    async def get(self, approval_id: str, /) -> ApprovalRecord | None:
        """See `ApprovalStore`; here an altered record comes out."""
        record = await self._store().get(approval_id)
        return self.alter(record) if self.alter is not None and record is not None else record

    async def decide(
        self, approval_id: str, /, decision: ApprovalDecision, now: datetime
    ) -> ApprovalRecord:
        """See `ApprovalStore`."""
        return await self._store().decide(approval_id, decision, now)

    async def consume(
        self,
        approval_id: str,
        /,
        execution_id: str,
        now: datetime,
        *,
        started: AuditEvent | None = None,
    ) -> ApprovalRecord:
        """See `SqlApprovals`."""
        return await self._store().consume(approval_id, execution_id, now, started=started)

    async def release(self, approval_id: str, /, execution_id: str) -> ApprovalRecord:
        """See `ApprovalStore`."""
        return await self._store().release(approval_id, execution_id)

    async def withdraw(self, approval_id: str, /, now: datetime) -> ApprovalRecord:
        """See `ApprovalStore`."""
        return await self._store().withdraw(approval_id, now)

    async def find(
        self,
        status: ApprovalStatus | None = None,
        capability_id: str | None = None,
        actor_id: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[ApprovalRecord]:
        """See `ApprovalStore`."""
        return await self._store().find(status, capability_id, actor_id, limit, after)

    async def expire_due(self, now: datetime, /) -> int:
        """See `ApprovalStore`."""
        return await self._store().expire_due(now)


class SwitchedStore:
    """A store on a database whose approvals can fail."""

    def __init__(self, url: str) -> None:
        self._kept = Store(url)
        self.approvals = FaultyApprovals(self._kept.approvals)
        self.audit, self.idempotency = self._kept.audit, self._kept.idempotency

    async def open(self) -> None:
        """Open the database."""
        await self._kept.open()

    async def aclose(self) -> None:
        """Close the database."""
        await self._kept.aclose()
