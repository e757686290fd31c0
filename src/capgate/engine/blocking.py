"""An engine for synchronous callers: one event loop in a thread, the same methods without await."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from anyio.from_thread import BlockingPortal, start_blocking_portal
from typing_extensions import TypeVar

from capgate.call import in_event_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from capgate.approvals import ApprovalRecord
    from capgate.call import Actor, Argument, Outcome
    from capgate.engine.discover import CapabilityDescriptor
    from capgate.engine.engine import Engine

DepsT = TypeVar("DepsT", default=None)


class BlockingEngine(Generic[DepsT]):
    """The calls of an engine, each blocking its thread until the call has ended."""

    __slots__ = ("_engine", "_portal", "approvals")

    approvals: BlockingApprovals

    def __init__(self, engine: Engine[DepsT], portal: BlockingPortal) -> None:
        """See `Engine.blocking`."""
        self._engine = engine
        self._portal = portal
        self.approvals = BlockingApprovals(engine, portal)

    def invoke(self, capability: Any, input: Argument = None, **options: Any) -> Any:
        """See `Engine.invoke`."""
        return self._portal.call(partial(self._engine.invoke, capability, input, **options))

    def attempt(self, capability: Any, input: Argument = None, **options: Any) -> Outcome[Any]:
        """See `Engine.attempt`."""
        return self._portal.call(partial(self._engine.attempt, capability, input, **options))

    def resume(self, approval_id: str, **options: Any) -> Any:
        """See `Engine.resume`."""
        return self._portal.call(partial(self._engine.resume, approval_id, **options))

    def attempt_resume(self, approval_id: str, **options: Any) -> Outcome[Any]:
        """See `Engine.attempt_resume`."""
        return self._portal.call(partial(self._engine.attempt_resume, approval_id, **options))

    def discover(self, surface: str, **options: Any) -> list[CapabilityDescriptor]:
        """See `Engine.discover`."""
        return self._portal.call(partial(self._engine.discover, surface, **options))

    def authenticate(self, credentials: object) -> Actor:
        """See `Engine.authenticate`."""
        return self._portal.call(self._engine.authenticate, credentials)


class BlockingApprovals:
    """`Engine.approvals` without await."""

    __slots__ = ("_engine", "_portal")

    def __init__(self, engine: Engine[Any], portal: BlockingPortal) -> None:
        """See `Engine.blocking`."""
        self._engine = engine
        self._portal = portal

    def get(self, approval_id: str) -> ApprovalRecord:
        """See `Approvals.get`."""
        return self._portal.call(self._engine.approvals.get, approval_id)

    def find(self, **filters: Any) -> list[ApprovalRecord]:
        """See `Approvals.find`."""
        return self._portal.call(partial(self._engine.approvals.find, **filters))

    def approve(self, approval_id: str, *, by: Actor, comment: str | None = None) -> ApprovalRecord:
        """See `Approvals.approve`."""
        approve = self._engine.approvals.approve
        return self._portal.call(partial(approve, approval_id, by=by, comment=comment))

    def reject(self, approval_id: str, *, by: Actor, comment: str | None = None) -> ApprovalRecord:
        """See `Approvals.reject`."""
        reject = self._engine.approvals.reject
        return self._portal.call(partial(reject, approval_id, by=by, comment=comment))

    def withdraw(self, approval_id: str, *, by: Actor) -> ApprovalRecord:
        """See `Approvals.withdraw`."""
        return self._portal.call(partial(self._engine.approvals.withdraw, approval_id, by=by))


@contextmanager
def blocking(engine: Engine[DepsT]) -> Iterator[BlockingEngine[DepsT]]:
    """Run an event loop in a thread, with the engine entered in it.

    Raises:
        RuntimeError: Inside a running event loop: await the engine there.
    """
    if in_event_loop():
        raise RuntimeError(
            "Engine.blocking() would block the event loop that runs here: await engine.invoke(…)"
        )
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(engine):
        yield BlockingEngine(engine, portal)
