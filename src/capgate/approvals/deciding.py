"""Deciding: who asks what of a request, checked, recorded and told to the audit.

Nothing is executed here, and nothing about the store's own rules: those are in `store`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import anyio

from capgate.approvals.actors import dump_actor, recapture
from capgate.approvals.binding import intact, seal
from capgate.approvals.entitlement import check_entitled
from capgate.approvals.guarded import GuardedStore
from capgate.approvals.record import (
    ApprovalDecision,
    ApprovalRecord,
    ApprovalStatus,
    check_comment,
)
from capgate.approvals.store import ApprovalStore, check_decidable
from capgate.approvals.telling import Emit, Teller, unheard
from capgate.call import Actor, Clock
from capgate.capability import canonical_json
from capgate.errors import CapabilityError, ErrorCode, FailureStage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capgate.approvals.rules import RuleBook

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Approvals:
    """The desk where requests are looked up and answered: `engine.approvals`.

    Args:
        store: Where requests are kept; guarded by `timeout` seconds an operation.
        clock: Says when a request has expired.
        rulebook: Resolves the approver rules of records.
        keys: Seal and check records; the first signs.
        timeout: Seconds for the rules of one decision, and for each store operation.
        deps: What rules see as `request.deps`.
        emit: Called with the event's type, the record (None when unknown), the actor and
            the data. Its failures are reported and change nothing.
    """

    __slots__ = ("_clock", "_deps", "_keys", "_rulebook", "_teller", "_timeout", "store")

    store: GuardedStore

    def __init__(
        self,
        store: ApprovalStore,
        *,
        clock: Clock,
        rulebook: RuleBook,
        keys: Sequence[bytes] = (),
        timeout: float = 5.0,
        deps: object = None,
        emit: Emit = unheard,
    ) -> None:
        """See the class."""
        self.store = GuardedStore(store, timeout=timeout)
        self._clock = clock
        self._rulebook = rulebook
        self._keys = tuple(keys)
        self._timeout = timeout
        self._deps = deps
        self._teller = Teller(emit, timeout=timeout)

    async def get(self, id: str) -> ApprovalRecord:
        """Return a request with the status it has now.

        Raises:
            CapabilityError: APPROVAL_NOT_FOUND or APPROVAL_UNAVAILABLE.
        """
        _check_id(id)
        record = await self.store.get(id)
        if record is None:
            raise CapabilityError(ErrorCode.APPROVAL_NOT_FOUND)
        return record.at(self._now())

    async def find(
        self,
        status: ApprovalStatus | str | None = None,
        capability_id: str | None = None,
        actor_id: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[ApprovalRecord]:
        """Return matching requests, oldest first, with the status they have now.

        `actor_id` is the requester's; `after` the last id of the previous page.

        Raises:
            ValueError: The status is unknown, or the limit below 1.
            CapabilityError: APPROVAL_UNAVAILABLE.
        """
        if limit < 1:
            raise ValueError("limit must be at least 1")
        wanted = None if status is None else ApprovalStatus(status)
        now = self._now()
        await self.store.expire_due(now)
        page = await self.store.find(wanted, capability_id, actor_id, limit, after)
        return [record.at(now) for record in page]

    async def approve(self, id: str, *, by: Actor, comment: str | None = None) -> ApprovalRecord:
        """Say yes and return what the request became; under a quorum it may still be pending.

        Raises:
            TypeError, ValueError: The comment is no text.
            CapabilityError: UNAUTHENTICATED, FORBIDDEN, APPROVAL_NOT_FOUND,
                APPROVAL_SELF_APPROVAL, APPROVAL_EXPIRED, APPROVAL_NOT_PENDING (also for an
                approver who has approved already), APPROVAL_INPUT_MISMATCH for a record that
                was tampered with, or APPROVAL_UNAVAILABLE.
        """
        return await self._decide(id, by, comment, approved=True)

    async def reject(self, id: str, *, by: Actor, comment: str | None = None) -> ApprovalRecord:
        """Say no, which ends the request; refused as `approve` is."""
        return await self._decide(id, by, comment, approved=False)

    async def withdraw(self, id: str, *, by: Actor) -> ApprovalRecord:
        """Take back one's own request.

        Raises:
            CapabilityError: UNAUTHENTICATED; APPROVAL_NOT_FOUND, for a stranger too;
                APPROVAL_EXPIRED, APPROVAL_NOT_PENDING or APPROVAL_UNAVAILABLE.
        """
        _check_id(id)
        requester = await self._captured(id, by)
        record = await self._known(id, requester)
        # Nobody knows who "anonymous" is, so no anonymous request is anybody's own.
        if requester.kind == "anonymous" or requester != record.actor:
            refusal = CapabilityError(ErrorCode.APPROVAL_NOT_FOUND)
            await self._teller.denied(refusal, id, requester, record)
            raise refusal
        return await self.store.withdraw(id, self._now())

    async def _decide(
        self, approval_id: str, by: Actor, comment: str | None, *, approved: bool
    ) -> ApprovalRecord:
        _check_id(approval_id)
        check_comment(comment)
        approver = await self._captured(approval_id, by, kept=True)
        record = await self._known(approval_id, approver)
        try:
            await self._check(record, approver)
        except CapabilityError as refusal:
            await self._teller.denied(refusal, approval_id, approver, record)
            raise
        now = self._now()
        decision = ApprovalDecision(approved, approver, comment, now)
        # Shielded, but bounded: a decision that was stored is always told.
        with anyio.fail_after(None, shield=True):
            sealed = seal(record, decision, self._keys)
            after = await self.store.decide(approval_id, sealed, now)
            await self._teller.decided(after, decision)
        return after

    async def _check(self, record: ApprovalRecord, approver: Actor) -> None:
        if not intact(record, self._keys):
            raise CapabilityError(ErrorCode.APPROVAL_INPUT_MISMATCH)
        if approver == record.actor and not record.allow_self:
            raise CapabilityError(ErrorCode.APPROVAL_SELF_APPROVAL)
        await check_entitled(
            record,
            approver,
            rulebook=self._rulebook,
            deps=self._deps,
            within=self._timeout,
        )
        check_decidable(record, self._now())

    async def _captured(self, approval_id: str, claimed: Actor, *, kept: bool = False) -> Actor:
        """Return a checked copy of an actor; one who is to be `kept` must be storable."""
        try:
            actor = recapture(claimed)
            if kept:
                canonical_json(dump_actor(actor))
        except Exception as malformed:
            refusal = CapabilityError(ErrorCode.UNAUTHENTICATED)
            await self._teller.denied(refusal, approval_id, Actor.anonymous())
            raise refusal from malformed
        return actor

    async def _known(self, approval_id: str, asker: Actor) -> ApprovalRecord:
        record = await self.store.get(approval_id)
        if record is None:
            refusal = CapabilityError(ErrorCode.APPROVAL_NOT_FOUND)
            await self._teller.denied(refusal, approval_id, asker)
            raise refusal
        return record

    def _now(self) -> datetime:
        try:
            # Subtraction refuses what is not an aware datetime.
            return _EPOCH + (self._clock.now() - _EPOCH)
        except Exception as broken:
            raise CapabilityError(ErrorCode.INTERNAL_ERROR, stage=FailureStage.APPROVAL) from broken


def _check_id(approval_id: object) -> None:
    if not isinstance(approval_id, str):
        raise TypeError("an approval id is a str")
