"""Approvals in this process's memory: gone when it ends."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from threading import Lock
from typing import TYPE_CHECKING

from capgate.approvals.record import ApprovalDecision, ApprovalRecord, ApprovalStatus, changed
from capgate.approvals.store import consumed, decided, released, withdrawn
from capgate.errors import CapabilityError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime


class MemoryApprovals:
    """An `ApprovalStore` in memory, safe for concurrent tasks and threads."""

    __slots__ = ("_by_actor", "_by_capability", "_by_status", "_due", "_lock", "_order", "_place")

    def __init__(self) -> None:
        """Start empty."""
        self._lock = Lock()
        self._order: list[ApprovalRecord] = []
        self._place: dict[str, int] = {}
        # Sorted places in `_order`: a page walks the shortest list that holds all its matches.
        self._by_status: defaultdict[ApprovalStatus, list[int]] = defaultdict(list)
        self._by_capability: defaultdict[str, list[int]] = defaultdict(list)
        self._by_actor: defaultdict[str, list[int]] = defaultdict(list)
        self._due: list[tuple[datetime, int]] = []

    @property
    def durable(self) -> bool:
        """Return False: the records go with the process."""
        return False

    async def create(self, record: ApprovalRecord) -> None:
        """See `ApprovalStore.create`."""
        kept = record.copy()
        with self._lock:
            if kept.id in self._place:
                raise ValueError("this approval id is taken")
            place = len(self._order)
            self._order.append(kept)
            self._place[kept.id] = place
            self._by_status[kept.status].append(place)
            self._by_capability[kept.capability_id].append(place)
            self._by_actor[kept.actor.id].append(place)
            heapq.heappush(self._due, (kept.expires_at, place))

    async def get(self, id: str) -> ApprovalRecord | None:
        """See `ApprovalStore.get`."""
        place = self._place.get(id)
        return None if place is None else self._order[place].copy()

    async def decide(self, id: str, decision: ApprovalDecision, now: datetime) -> ApprovalRecord:
        """See `ApprovalStore.decide`."""
        return self._change(id, lambda record: decided(record, decision, now))

    async def consume(self, id: str, execution_id: str, now: datetime) -> ApprovalRecord:
        """See `ApprovalStore.consume`."""
        return self._change(id, lambda record: consumed(record, execution_id, now))

    async def release(self, id: str, execution_id: str) -> ApprovalRecord:
        """See `ApprovalStore.release`."""
        return self._change(id, lambda record: released(record, execution_id))

    async def withdraw(self, id: str, now: datetime) -> ApprovalRecord:
        """See `ApprovalStore.withdraw`."""
        return self._change(id, lambda record: withdrawn(record, now))

    async def find(
        self,
        status: ApprovalStatus | None = None,
        capability_id: str | None = None,
        actor_id: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[ApprovalRecord]:
        """See `ApprovalStore.find`."""
        if limit < 1:
            raise ValueError("limit must be at least 1")
        with self._lock:
            if after is not None and after not in self._place:
                return []
            start = 0 if after is None else self._place[after] + 1
            places = self._shortest(status, capability_id, actor_id)
            page: list[ApprovalRecord] = []
            for index in range(bisect_left(places, start), len(places)):
                record = self._order[places[index]]
                if _matches(record, status, capability_id, actor_id):
                    page.append(record)
                    if len(page) == limit:
                        break
        return [record.copy() for record in page]

    async def expire_due(self, now: datetime) -> int:
        """See `ApprovalStore.expire_due`."""
        flipped = 0
        with self._lock:
            while self._due and self._due[0][0] <= now:
                _, place = heapq.heappop(self._due)
                record = self._order[place]
                if record.status_at(now) is not record.status:
                    self._put(place, changed(record, status=ApprovalStatus.EXPIRED))
                    flipped += 1
        return flipped

    def _change(
        self, approval_id: str, rule: Callable[[ApprovalRecord], ApprovalRecord]
    ) -> ApprovalRecord:
        with self._lock:
            place = self._place.get(approval_id)
            if place is None:
                raise CapabilityError(ErrorCode.APPROVAL_NOT_FOUND)
            before = self._order[place]
            after = rule(before)
            self._put(place, after)
            if before.status is ApprovalStatus.CONSUMED:
                # Released: its turn to expire may have been passed over while it was spent.
                heapq.heappush(self._due, (after.expires_at, place))
        return after.copy()

    def _put(self, place: int, record: ApprovalRecord) -> None:
        before = self._order[place].status
        self._order[place] = record
        if before is not record.status:
            old = self._by_status[before]
            del old[bisect_left(old, place)]
            insort(self._by_status[record.status], place)

    def _shortest(
        self, status: ApprovalStatus | None, capability_id: str | None, actor_id: str | None
    ) -> Sequence[int]:
        candidates: list[Sequence[int]] = [range(len(self._order))]
        if status is not None:
            candidates.append(self._by_status.get(status, []))
        if capability_id is not None:
            candidates.append(self._by_capability.get(capability_id, []))
        if actor_id is not None:
            candidates.append(self._by_actor.get(actor_id, []))
        return min(candidates, key=len)


def _matches(
    record: ApprovalRecord,
    status: ApprovalStatus | None,
    capability_id: str | None,
    actor_id: str | None,
) -> bool:
    return (
        status in {None, record.status}
        and capability_id in {None, record.capability_id}
        and actor_id in {None, record.actor.id}
    )
