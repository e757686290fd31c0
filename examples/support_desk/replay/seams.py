"""What lets a replay misbehave on purpose: an approval store and an audit sink with a switch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from capgate.approvals import (
    ApprovalDecision,
    ApprovalRecord,
    ApprovalStatus,
    MemoryApprovals,
)
from capgate.audit import AuditEvent, AuditSink


class SwitchedSink:
    """Passes events on while it is up, and fails like a full disk while it is down."""

    def __init__(self, sink: AuditSink) -> None:
        self._sink = sink
        self.up = True

    def __call__(self, event: AuditEvent) -> Awaitable[None] | None:
        """Deliver one event.

        Raises:
            OSError: The sink is down.
        """
        if not self.up:
            raise OSError("no space left on device")
        return self._sink(event)


class FaultyApprovals:
    """An approval store in memory that can be down, or hand out an altered record."""

    durable = False

    def __init__(self) -> None:
        self._kept = MemoryApprovals()
        self.up = True
        self.alter: Callable[[ApprovalRecord], ApprovalRecord] | None = None

    def _store(self) -> MemoryApprovals:
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
        self, approval_id: str, /, execution_id: str, now: datetime
    ) -> ApprovalRecord:
        """See `ApprovalStore`."""
        return await self._store().consume(approval_id, execution_id, now)

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
