"""One execution: the record that the pipeline fills.

Only the pipeline and the engine write a `Call`. What policies, rules, stages and handlers see of
it are views and copies, so nothing they do changes what executes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from capgate.call.actor import Actor
from capgate.call.guard import Cause, Guard, Scope
from capgate.call.logline import log
from capgate.call.request import USUAL, Argument, Request
from capgate.errors import JSON, Effect

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from capgate.approvals import ApprovalRecord
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

    def prove_input(self, value: Argument) -> JSON:
        """Return the JSON form, once it is certain that it stands for this value alone."""
        ...

    def copy_input(self, value: Argument) -> Argument:
        """Return a copy that shares nothing mutable."""
        ...

    def arguments(self, value: Argument) -> Mapping[str, Argument]:
        """Return the top-level fields, read-only."""
        ...


_NOBODY: Final = Actor.anonymous()


@dataclass(slots=True, eq=False, repr=False)
class Established(Guard):
    """What every call sets and reads: slots, for they are the hot path."""

    request: Request = USUAL
    claimed: Argument = None
    execution_id: str = ""
    capability_id: str = ""
    surface: str = ""
    correlation_id: str = ""
    started_at: float = 0.0
    task: Any = None
    view: CapabilityView | None = None
    form: InputForm | None = None
    guard: CallGuard | None = None
    actor: Actor = _NOBODY
    identity: Actor | None = None
    deps: Any = None
    value: Argument = None
    validated: bool = False
    decisions: tuple[Mapping[str, JSON], ...] = ()
    requirements: tuple[Decision, ...] = ()
    attempts: int = 0
    entered: bool = False
    running: bool = False
    returned: bool = False
    late: bool = False
    output: Argument = None
    effect: Effect = Effect.NONE
    raised: BaseException | None = None
    input_hash: str | None = None
    approval: ApprovalRecord | None = None
    parent_execution_id: str | None = None
    claim_key: str | None = None
    settling: list[Settle] | None = None
    overrun: bool = False
    replayed: bool = False
    suspended: ApprovalRecord | None = None
    error: CapabilityError | None = None


class Call(Established):
    """Everything claimed and established about one execution; the guard of its own attempts.

    What few calls need has its default here, on the class.
    """

    guard: CallGuard | None
    attempts: int
    settling: list[Settle] | None
    baseline: int = 0
    identity_error: BaseException | None = None
    dry_run: bool = False
    still_running: bool = False
    waiting: Scope | None = None
    prepare: Callable[[], Awaitable[None]] | None = None
    denial: str | None = None
    deny_reason: str | None = None
    told_suspended: bool = False
    told_start: bool = False
    resumed: bool = False
    spent: bool = False
    burnt: bool = False
    doubt: bool = False
    harmless: bool = False
    halted: bool = False
    approval_id: str | None = None
    output_json: JSON = None
    replay: StoredOutcome | None = None
    places: tuple[Callable[[], None], ...] = ()
    step: Any = None
    state_: dict[str, object] | None = None
    logger_: FilteringBoundLogger | None = None

    @property
    def state(self) -> dict[str, object]:
        """What stages and the handler tell each other; made when first asked for."""
        if self.state_ is None:
            self.state_ = {}
        return self.state_

    def on_settle(self, callback: Settle) -> None:
        """Keep a callback for when the outcome is known."""
        if self.settling is None:
            self.settling = []
        self.settling.append(callback)

    @property
    def logger(self) -> FilteringBoundLogger:
        """One logger for the call, bound when first asked for."""
        logger = self.logger_
        if logger is None:
            self.logger_ = logger = structlog.get_logger("capgate").bind(
                execution_id=self.execution_id,
                capability_id=self.capability_id,
                surface=self.surface,
                correlation_id=self.correlation_id,
            )
        return logger

    def native(self) -> bool:
        """Tell whether the caller's task, or a scope around it, has been cancelled."""
        return self.watch.native(self.task, self.baseline)

    def overran(self) -> None:
        """Report a handler that cleans up for longer than its grace."""
        self.overrun = True
        log("cleanup_overrun", level="warning", call=self, grace_seconds=self.grace)

    def take_places(self) -> Callable[[], None]:
        """Hand the places this call holds to whoever calls the result, once."""
        places, self.places = self.places, ()

        def release() -> None:
            for place in places:
                place()

        return release

    def halt(self) -> None:
        """Stop the call, wherever it is: the engine is closing. A value already returned stays."""
        if self.returned or self.halted:
            return
        self.halted = True
        if self.guard is None:
            # Never entered: it only tells the gates, and who judges, that the call was stopped.
            self.guard = CallGuard(watch=self.watch)
            self.guard.note(Cause.TOKEN, self.watch.now())
        else:
            self.guard.fire(Cause.TOKEN)
        if self.running:
            self.fire(Cause.TOKEN)
        if self.waiting is not None:
            self.waiting.cancel()

    def never_ran(self) -> None:
        """Take back that this attempt has begun: its handler was not entered."""
        self.attempts -= 1
        self.harmless = True

    def shown_actor(self) -> Actor:
        """Return the actor as others may have it: a copy, where they could change it."""
        return self.actor if self.actor.shared else deepcopy(self.actor)

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


@dataclass(slots=True, eq=False, repr=False)
class CallGuard(Guard):
    """Guards everything of a call up to its handler's end: for its own timeout, or its token."""

    call: Call | None = None

    @classmethod
    def around(cls, call: Call) -> CallGuard:
        """Return the guard of `call`, in a new scope."""
        return cls(scope=call.watch.new_scope(), watch=call.watch, grace=call.grace, call=call)

    def fire(self, cause: Cause) -> None:
        """Interrupt, unless the call has left the scope: then nothing stops it any more."""
        if self.call is not None:
            Guard.fire(self, cause)

    def rest(self) -> None:
        """Watch no longer, and let go of the call."""
        Guard.rest(self)
        if self.call is not None and self.call.request.cancel is not None:
            self.call.request.cancel.unsubscribe(self)
        self.call = None

    def overran(self) -> None:
        """Report it on the call."""
        if self.call is not None:
            self.call.overran()
