"""An engine for synchronous callers: one event loop in a thread, the same methods without await."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Generic, overload

from anyio.from_thread import BlockingPortal, start_blocking_portal
from typing_extensions import ParamSpec, TypeVar, Unpack

from capgate.call import in_event_loop

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from pydantic import BaseModel

    from capgate.approvals import ApprovalRecord
    from capgate.call import Actor, Argument, Outcome
    from capgate.capability import Capability
    from capgate.engine.describing import Explanation
    from capgate.engine.discover import CapabilityDescriptor
    from capgate.engine.engine import Engine
    from capgate.engine.options import (
        BlockingResumeOptions,
        CallOptions,
        DiscoverOptions,
        ExplainOptions,
    )

P = ParamSpec("P")
Out = TypeVar("Out")
Model = TypeVar("Model", bound="BaseModel")
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

    @overload
    def invoke(
        self,
        capability: Capability[P, Out],
        input: Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Out: ...
    @overload
    def invoke(
        self,
        capability: Capability[Concatenate[Model, ...], Out],
        input: Model | Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Out: ...
    @overload
    def invoke(
        self, capability: str, input: Argument = ..., **options: Unpack[CallOptions]
    ) -> Any: ...
    def invoke(self, capability: Any, input: Argument = None, **options: Any) -> Any:
        """See `Engine.invoke`."""
        return self._portal.call(partial(self._engine.invoke, capability, input, **options))

    @overload
    def attempt(
        self,
        capability: Capability[P, Out],
        input: Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Outcome[Out]: ...
    @overload
    def attempt(
        self,
        capability: Capability[Concatenate[Model, ...], Out],
        input: Model | Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Outcome[Out]: ...
    @overload
    def attempt(
        self, capability: str, input: Argument = ..., **options: Unpack[CallOptions]
    ) -> Outcome[Any]: ...
    def attempt(self, capability: Any, input: Argument = None, **options: Any) -> Outcome[Any]:
        """See `Engine.attempt`."""
        outcome: Outcome[Any] = self._portal.call(
            partial(self._engine.attempt, capability, input, **options)
        )
        return outcome

    def resume(self, approval_id: str, **options: Unpack[BlockingResumeOptions]) -> Any:
        """See `Engine.resume`."""
        return self.attempt_resume(approval_id, **options).unwrap()

    def attempt_resume(
        self, approval_id: str, **options: Unpack[BlockingResumeOptions]
    ) -> Outcome[Any]:
        """See `Engine.attempt_resume`."""
        outcome: Outcome[Any] = self._portal.call(
            partial(self._engine.attempt_resume, approval_id, **options)
        )
        return outcome

    def discover(
        self, surface: str, **options: Unpack[DiscoverOptions]
    ) -> list[CapabilityDescriptor]:
        """See `Engine.discover`."""
        return self._portal.call(partial(self._engine.discover, surface, **options))

    def explain(
        self,
        capability: Capability[..., Any] | str,
        input: Argument = None,
        *,
        surface: str = "direct",
        **options: Unpack[ExplainOptions],
    ) -> Explanation:
        """See `Engine.explain`."""
        explain = partial(self._engine.explain, capability, input, surface=surface, **options)
        return self._portal.call(explain)

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

    def get(self, id: str) -> ApprovalRecord:
        """See `Approvals.get`."""
        return self._portal.call(self._engine.approvals.get, id)

    def find(self, **filters: Any) -> list[ApprovalRecord]:
        """See `Approvals.find`."""
        return self._portal.call(partial(self._engine.approvals.find, **filters))

    def approve(self, id: str, *, by: Actor, comment: str | None = None) -> ApprovalRecord:
        """See `Approvals.approve`."""
        approve = self._engine.approvals.approve
        return self._portal.call(partial(approve, id, by=by, comment=comment))

    def reject(self, id: str, *, by: Actor, comment: str | None = None) -> ApprovalRecord:
        """See `Approvals.reject`."""
        reject = self._engine.approvals.reject
        return self._portal.call(partial(reject, id, by=by, comment=comment))

    def withdraw(self, id: str, *, by: Actor) -> ApprovalRecord:
        """See `Approvals.withdraw`."""
        return self._portal.call(partial(self._engine.approvals.withdraw, id, by=by))


@contextmanager
def blocking(engine: Engine[DepsT]) -> Generator[BlockingEngine[DepsT]]:
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
