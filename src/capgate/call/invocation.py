"""One execution: the record that the pipeline fills, and the read-only view a custom stage gets.

Only the pipeline and the engine write a `Call`. What policies, rules, stages and handlers see of
it are views and copies, so nothing they do changes what executes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from capgate.call.actor import Actor
from capgate.call.guard import Cause
from capgate.errors import JSON, Effect

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from capgate.approvals import ApprovalRecord
    from capgate.call.guard import Guard, Watch
    from capgate.call.request import Argument, Request
    from capgate.capability import CapabilityView
    from capgate.errors import CapabilityError
    from capgate.idempotency import StoredOutcome
    from capgate.policies import Decision

Settle = Callable[[], Awaitable[None] | None]

NO_ARGUMENTS: Final[Mapping[str, Argument]] = MappingProxyType({})


class InputForm(Protocol):
    """What a record needs of a contract."""

    def dump_input(self, value: Argument) -> JSON:
        """Return the JSON form."""
        ...

    def copy_input(self, value: Argument) -> Argument:
        """Return a copy that shares nothing mutable."""
        ...

    def arguments(self, value: Argument) -> Mapping[str, Argument]:
        """Return the top-level fields, read-only."""
        ...


class Call:
    """Everything claimed and established about one execution.

    Defaults live on the class: a call sets only what differs, which keeps the hot path short.
    """

    actor: Actor = Actor.anonymous()
    identity: Actor | None = None
    identity_error: BaseException | None = None
    deps: Any = None
    value: Argument = None
    validated = False
    input_json: JSON = None
    input_hash: str | None = None
    approval: ApprovalRecord | None = None
    view: CapabilityView | None = None
    form: InputForm | None = None
    idempotency_key: str | None = None
    claim_key: str | None = None
    deadline: float | None = None
    guard: Guard | None = None
    dry_run = False
    attempts = 0
    entered = False
    returned = False
    late = False
    replayed = False
    overrun = False
    still_running = False
    output: Argument = None
    effect = Effect.NONE
    decisions: tuple[Mapping[str, JSON], ...] = ()
    requirements: tuple[Decision, ...] = ()
    denial: str | None = None
    deny_reason: str | None = None
    suspended: ApprovalRecord | None = None
    told_suspended = False
    resumed = False
    spent = False
    burnt = False
    doubt = False
    harmless = False
    settling: list[Settle] | None = None
    approval_id: str | None = None
    output_json: JSON = None
    replay: StoredOutcome | None = None
    places: tuple[Callable[[], None], ...] = ()
    grace = 5.0
    running: Guard | None = None
    halted = False
    raised: BaseException | None = None
    step: Any = None
    error: CapabilityError | None = None

    def __init__(
        self,
        request: Request,
        execution_id: str,
        capability_id: str,
        surface: str,
        watch: Watch,
    ) -> None:
        """Begin an execution of `request`."""
        self.request = request
        self.execution_id = execution_id
        self.capability_id = capability_id
        self.surface = surface
        self.watch = watch
        self.correlation_id = request.correlation_id or execution_id
        self.task = task = watch.task()
        self.baseline = watch.baseline(task)
        self.started_at = watch.now()

    @property
    def state(self) -> dict[str, object]:
        """What stages and the handler tell each other; made when first asked for."""
        return self.__dict__.setdefault("_state", {})

    def on_settle(self, callback: Settle) -> None:
        """Keep a callback for when the outcome is known."""
        if self.settling is None:
            self.settling = []
        self.settling.append(callback)

    @property
    def logger(self) -> FilteringBoundLogger:
        """One logger for the call, bound when first asked for."""
        cached = self.__dict__.get("_logger")
        if cached is None:
            cached = structlog.get_logger("capgate").bind(
                execution_id=self.execution_id,
                capability_id=self.capability_id,
                surface=self.surface,
                correlation_id=self.correlation_id,
            )
            self.__dict__["_logger"] = cached
        return cached

    def native(self) -> bool:
        """Tell whether the caller's task, or a scope around it, has been cancelled."""
        return self.watch.native(self.task, self.baseline)

    def overran(self) -> None:
        """Report a handler that cleans up for longer than its grace."""
        self.overrun = True
        self.logger.warning("cleanup_overrun", grace_seconds=self.grace)

    def take_places(self) -> Callable[[], None]:
        """Hand the places this call holds to whoever calls the result, once."""
        places, self.places = self.places, ()

        def release() -> None:
            for place in places:
                place()

        return release

    def halt(self) -> None:
        """Stop the call: the engine is closing."""
        self.halted = True
        for guard in (self.guard, self.running):
            if guard is not None:
                guard.fire(Cause.TOKEN)

    def copy_input(self) -> Argument:
        """Return the validated input as a copy of its own, None before validation."""
        if self.form is None or not self.validated:
            return None
        return self.form.copy_input(self.value)

    def arguments(self) -> Mapping[str, Argument]:
        """Return the validated top-level fields, empty before validation."""
        if self.form is None or not self.validated:
            return NO_ARGUMENTS
        return self.form.arguments(self.value)


class Invocation:
    """What a custom stage sees of one call; it can read everything and change nothing but `state`.

    `input` and `arguments` are None and empty before the input is validated, and copies after.
    """

    __slots__ = ("__call", "__weakref__")

    def __init__(self, call: Call) -> None:
        """View `call`."""
        self.__call = call

    @property
    def execution_id(self) -> str:
        """This execution."""
        return self.__call.execution_id

    @property
    def capability(self) -> CapabilityView:
        """The capability, read-only."""
        view = self.__call.view
        if view is None:
            raise LookupError("no capability: stages do not run for an unknown id")
        return view

    @property
    def surface(self) -> str:
        """The surface the call came through."""
        return self.__call.surface

    @property
    def input(self) -> Argument:
        """A copy of the validated input."""
        return self.__call.copy_input()

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """The validated top-level fields, read-only."""
        return self.__call.arguments()

    @property
    def actor(self) -> Actor:
        """The caller; anonymous until authentication has judged the identity."""
        return self.__call.actor

    @property
    def deps(self) -> Any:
        """The application's dependencies for this call."""
        return self.__call.deps

    @property
    def approval(self) -> ApprovalRecord | None:
        """The approval this call runs under, on resume."""
        return self.__call.approval

    @property
    def correlation_id(self) -> str:
        """What ties this execution to others."""
        return self.__call.correlation_id

    @property
    def state(self) -> dict[str, object]:
        """A mapping of this call for stages to talk to each other."""
        return self.__call.state

    @property
    def logger(self) -> FilteringBoundLogger:
        """A logger bound to this call."""
        return self.__call.logger

    def on_settle(self, callback: Settle) -> None:
        """Have `callback` run once the outcome is known.

        Callbacks run in reverse order, shielded from cancellation, each bounded in time. They may
        release or record; the outcome no longer changes.

        Args:
            callback: Takes nothing; may be async.
        """
        if not callable(callback):
            raise TypeError("on_settle needs a callable without arguments")
        self.__call.on_settle(callback)
