"""The approver of a test: what waits, and answers given by whoever is entitled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capgate.approvals import ApprovalStatus
from capgate.testing.actors import approver_of

if TYPE_CHECKING:
    from capgate.approvals import ApprovalRecord, Approvals
    from capgate.call import Actor

APPROVER = "test-approver"
_PAGE = 100


class ApprovalProbe:
    """Looks at the requests of one engine and answers them, under the engine's own rules."""

    __slots__ = ("_desk",)

    def __init__(self, desk: Approvals) -> None:
        """Work at an engine's `approvals`."""
        self._desk = desk

    async def pending(self) -> list[ApprovalRecord]:
        """Return every request that waits for an answer, oldest first."""
        found: list[ApprovalRecord] = []
        while True:
            after = found[-1].id if found else None
            page = await self._desk.find(ApprovalStatus.PENDING, limit=_PAGE, after=after)
            found += page
            if len(page) < _PAGE:
                return found

    async def get(self, id: str) -> ApprovalRecord:
        """Return a request with the status it has now."""
        return await self._desk.get(id)

    async def approve(
        self, id: str, by: Actor | None = None, *, comment: str | None = None
    ) -> ApprovalRecord:
        """Say yes and return what the request became.

        Args:
            id: The request.
            by: Who says it. None: a user who is neither the requester nor has answered before,
                with the permissions that `requires(...)` rules ask for; rules that are
                functions may still refuse them.
            comment: A text for the record.

        Raises:
            CapabilityError: As `engine.approvals.approve`.
        """
        who = await self._approver(id, by)
        return await self._desk.approve(id, by=who, comment=comment)

    async def reject(
        self, id: str, by: Actor | None = None, *, comment: str | None = None
    ) -> ApprovalRecord:
        """Say no; arguments and failures as `approve`."""
        who = await self._approver(id, by)
        return await self._desk.reject(id, by=who, comment=comment)

    async def withdraw(self, id: str, by: Actor | None = None) -> ApprovalRecord:
        """Take a request back, as its requester unless another actor is given."""
        who = (await self._desk.get(id)).actor if by is None else by
        return await self._desk.withdraw(id, by=who)

    async def _approver(self, approval_id: str, by: Actor | None) -> Actor:
        return approver_of(await self._desk.get(approval_id), APPROVER) if by is None else by
