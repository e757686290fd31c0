"""A store as the engine sees it: bounded in time, and failing in one of two known ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from capgate.approvals.record import ApprovalDecision, ApprovalRecord, ApprovalStatus
from capgate.call import bounded
from capgate.errors import CapabilityError, ErrorCode, is_own

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from datetime import datetime

    from capgate.approvals.store import ApprovalStore
    from capgate.audit import AuditEvent

AnswerT = TypeVar("AnswerT")
# What a store really answers: nothing about it is trusted before it is read.
Claimed: TypeAlias = Any

_REFUSALS: Final = frozenset(
    {
        ErrorCode.APPROVAL_NOT_FOUND,
        ErrorCode.APPROVAL_NOT_PENDING,
        ErrorCode.APPROVAL_PENDING,
        ErrorCode.APPROVAL_REJECTED,
        ErrorCode.APPROVAL_EXPIRED,
        ErrorCode.APPROVAL_CONSUMED,
        ErrorCode.APPROVAL_CANCELLED,
    }
)


class GuardedStore:
    """An `ApprovalStore` around any other: a refusal passes, all else is APPROVAL_UNAVAILABLE.

    After APPROVAL_UNAVAILABLE the change may have happened: the answer was lost, not the
    question. Whoever consumed must then release.

    Args:
        store: The store to guard.
        timeout: Seconds that one operation may take.
    """

    __slots__ = ("_store", "_timeout")

    def __init__(self, store: ApprovalStore, *, timeout: float) -> None:
        """See the class."""
        self._store = store
        self._timeout = timeout

    @property
    def durable(self) -> bool:
        """Whether records outlive the process; what a store does not say is not assumed."""
        return bool(getattr(self._store, "durable", False))

    async def create(self, record: ApprovalRecord, /) -> None:
        """See `ApprovalStore.create`."""
        await self._ask(lambda: self._store.create(record), _anything)

    async def get(self, approval_id: str, /) -> ApprovalRecord | None:
        """See `ApprovalStore.get`."""
        return await self._ask(lambda: self._store.get(approval_id), _record_or_none)

    async def decide(
        self, approval_id: str, /, decision: ApprovalDecision, now: datetime
    ) -> ApprovalRecord:
        """See `ApprovalStore.decide`."""
        return await self._ask(lambda: self._store.decide(approval_id, decision, now), _record)

    async def consume(
        self,
        approval_id: str,
        /,
        execution_id: str,
        now: datetime,
        *,
        started: AuditEvent | None = None,
    ) -> ApprovalRecord:
        """See `ApprovalStore.consume`; `started` is for a store that keeps it in the same step."""
        kept = {} if started is None else {"started": started}
        return await self._ask(
            lambda: self._store.consume(approval_id, execution_id, now, **kept), _record
        )

    async def release(self, approval_id: str, /, execution_id: str) -> ApprovalRecord:
        """See `ApprovalStore.release`."""
        return await self._ask(lambda: self._store.release(approval_id, execution_id), _record)

    async def withdraw(self, approval_id: str, /, now: datetime) -> ApprovalRecord:
        """See `ApprovalStore.withdraw`."""
        return await self._ask(lambda: self._store.withdraw(approval_id, now), _record)

    async def find(
        self,
        status: ApprovalStatus | None = None,
        capability_id: str | None = None,
        actor_id: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Sequence[ApprovalRecord]:
        """See `ApprovalStore.find`."""
        return await self._ask(
            lambda: self._store.find(status, capability_id, actor_id, limit, after), _records
        )

    async def expire_due(self, now: datetime, /) -> int:
        """See `ApprovalStore.expire_due`."""
        return await self._ask(lambda: self._store.expire_due(now), int)

    async def _ask(
        self, question: Callable[[], Awaitable[Claimed]], read: Callable[[Claimed], AnswerT]
    ) -> AnswerT:
        try:
            return read(await bounded(question(), self._timeout))
        except CapabilityError as refusal:
            if is_own(refusal) and refusal.code in _REFUSALS:
                raise
            raise CapabilityError(ErrorCode.APPROVAL_UNAVAILABLE) from refusal
        except Exception as outage:
            raise CapabilityError(ErrorCode.APPROVAL_UNAVAILABLE) from outage


def _anything(_answer: object) -> None:
    """Ignore what a store answers where nothing is promised."""


def _record(answer: object) -> ApprovalRecord:
    if not isinstance(answer, ApprovalRecord):
        raise TypeError("the store did not answer with an ApprovalRecord")
    return answer


def _record_or_none(answer: object) -> ApprovalRecord | None:
    return None if answer is None else _record(answer)


def _records(answer: Iterable[object]) -> list[ApprovalRecord]:
    return [_record(each) for each in answer]
