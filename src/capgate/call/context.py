"""What a handler learns about its own call, read-only, and how it calls on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, final

from typing_extensions import TypeVar

from capgate.call.progress import Progress, report_progress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from structlog.typing import FilteringBoundLogger

    from capgate.approvals import ApprovalRecord
    from capgate.call.actor import Actor
    from capgate.call.invocation import Call
    from capgate.call.outcome import Outcome
    from capgate.call.request import Argument

DepsT = TypeVar("DepsT", default=None)


@final
class Context(Generic[DepsT]):
    """One execution as its handler sees it.

    Annotate a parameter of the handler with `Context[YourDeps]`, under any name; it is not part
    of the input.
    """

    __slots__ = ("__call", "__nest", "__synchronous", "attempt_number")

    attempt_number: int

    def __init__(
        self, call: Call, *, nest: Callable[..., Awaitable[Outcome[Any]]], synchronous: bool
    ) -> None:
        """Look at `call`; built by the engine."""
        self.__call = call
        self.__nest = nest
        self.__synchronous = synchronous
        self.attempt_number = call.attempts

    @property
    def execution_id(self) -> str:
        """This execution; the same on every attempt."""
        return self.__call.execution_id

    @property
    def capability_id(self) -> str:
        """The id the call named."""
        return self.__call.capability_id

    @property
    def surface(self) -> str:
        """The surface the call came through."""
        return self.__call.surface

    @property
    def actor(self) -> Actor:
        """Who calls; on resume the original requester."""
        return self.__call.shown_actor()

    @property
    def deps(self) -> DepsT:
        """The application's dependencies."""
        deps: DepsT = self.__call.deps
        return deps

    @property
    def approval(self) -> ApprovalRecord | None:
        """The approval this runs under, naming the approvers."""
        return self.__call.approval

    @property
    def correlation_id(self) -> str:
        """What ties this execution to others."""
        return self.__call.correlation_id

    @property
    def parent_execution_id(self) -> str | None:
        """The execution that called this one, when nested."""
        return self.__call.parent_execution_id

    @property
    def idempotency_key(self) -> str:
        """The caller's key, else the execution id: stable across attempts, unique across calls."""
        return self.__call.request.idempotency_key or self.__call.execution_id

    @property
    def deadline(self) -> float:
        """When this attempt is interrupted, in seconds of the event loop's clock."""
        outer = self.__call.guard
        own = self.__call.deadline
        return own if outer is None else min(own, outer.deadline)

    @property
    def logger(self) -> FilteringBoundLogger:
        """A logger bound to this call."""
        return self.__call.logger

    @property
    def state(self) -> dict[str, object]:
        """What the stages of this call left for each other."""
        return self.__call.state

    def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Tell whoever follows this call how far it is; without a follower nothing happens.

        Args:
            done: Units done so far.
            total: Units in all, if known.
            message: A short text for people.

        Raises:
            TypeError: At once, in a synchronous handler: it has no await to wait with.
            RuntimeError: At once, when the call has ended.
        """
        self.__check_async("progress")
        self.__check_live("progress")
        return report_progress(Progress(self.execution_id, done, total, message))

    def invoke(self, capability: object, input: Argument = None, **options: Any) -> Awaitable[Any]:
        """Call another capability and return its output.

        The nested call has this call's actor, correlation id and token unless given others, the
        surface `direct`, and never outlives this one.

        Args:
            capability: An id or a handle.
            input: Its input.
            **options: As `Engine.invoke`.

        Raises:
            CapabilityError: The nested call did not complete.
            TypeError: At once, in a synchronous handler.
            RuntimeError: The call has ended: a context that was kept calls no more.
        """
        return _unwrapped(self.attempt(capability, input, **options))

    def attempt(
        self, capability: object, input: Argument = None, **options: Any
    ) -> Awaitable[Outcome[Any]]:
        """Call another capability and return its outcome; options as `invoke`."""
        self.__check_async("attempt")
        self.__check_live("attempt")
        request = self.__call.request
        if options.get("actor") is None and options.get("credentials") is None:
            options["actor"] = self.__call.actor
        options.setdefault("correlation_id", self.__call.correlation_id)
        options.setdefault("cancel", request.cancel)
        options.setdefault("deps", self.__call.deps)
        return self.__nested(capability, input, **options)

    async def __nested(self, capability: object, input: Argument, **options: Any) -> Outcome[Any]:
        # Once more: what was made while the call ran may be awaited after its end.
        self.__check_live("attempt")
        return await self.__nest(capability, input, parent=self.__call, **options)

    def __check_async(self, what: str) -> None:
        if self.__synchronous:
            raise TypeError(
                f"Context.{what} is not available in a synchronous handler: make it async def"
            )

    def __check_live(self, what: str) -> None:
        if not self.__call.running:
            raise RuntimeError(f"Context.{what} is not available any more: the call has ended")

    def __repr__(self) -> str:
        return f"Context({self.capability_id!r}, {self.execution_id!r})"


async def _unwrapped(attempt: Awaitable[Outcome[Any]]) -> Any:
    return (await attempt).unwrap()
