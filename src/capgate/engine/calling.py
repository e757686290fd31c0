"""Starting a call: what the caller said is checked and becomes the record of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capgate.call import (
    Actor,
    ApprovalRequired,
    Call,
    CallGuard,
    Cancelled,
    CancelToken,
    Completed,
    Failed,
    current_watch,
    log,
    to_seconds,
)
from capgate.engine.texts import plain
from capgate.errors import ErrorCode
from capgate.pipeline import capture_claimed

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.call import Outcome, Request
    from capgate.engine.dependencies import Dependencies
    from capgate.engine.drain import Live
    from capgate.engine.registry import Registry
    from capgate.pipeline import Plan, Runtime

_STOPPED = frozenset({ErrorCode.TIMEOUT, ErrorCode.CANCELLED})


class Caller:
    """Begins calls for one engine."""

    __slots__ = ("_dependencies", "_grace", "_live", "_new_id", "_plan", "_runtime")

    def __init__(
        self, registry: Registry, runtime: Runtime, dependencies: Dependencies, live: Live
    ) -> None:
        """Bind to the engine's parts."""
        self._plan = registry.plan
        self._runtime = runtime
        self._grace = runtime.cleanup_grace
        self._new_id = runtime.new_execution_id
        self._dependencies = dependencies
        self._live = live

    def open(
        self, capability: object, request: Request, surface: str, *, nested: bool = False
    ) -> tuple[Call, Plan]:
        """Check what the caller said and establish the call's record.

        Raises:
            TypeError: The caller said something that cannot be.
            RuntimeError: The engine has been closed; calls inside a running one still go on.
        """
        if self._live.closing and not nested:
            self.check_open()
        if request.unusual or type(surface) is not str:
            known = self._runtime.authenticate is not None
            surface = check(request, surface, authenticator=known)
        id_, plan = self._plan(capability, surface)
        return self.begin(request, id_, plan, surface), plan

    def check_open(self) -> None:
        """Refuse once the engine is closing.

        Raises:
            RuntimeError: It is.
        """
        if self._live.closing:
            raise RuntimeError("the engine is closed: it takes no new calls")

    def begin(self, request: Request, id_: str, plan: Plan, surface: str) -> Call:
        """Establish a call's record; most attributes have their default on the class."""
        call = Call()
        call.request = request
        call.capability_id = id_
        call.surface = surface
        call.view = plan.view
        call.form = plan.form
        call.execution_id = execution_id = self._new_id()
        call.correlation_id = request.correlation_id or execution_id
        call.watch = watch = current_watch()
        call.started_at = watch.now()
        call.task = task = watch.task()
        if task is not None and task.cancelling():
            call.baseline = watch.baseline(task)
        deps = self._dependencies
        call.deps = deps.value if deps.simple and request.deps is None else deps.of(request.deps)
        actor = request.actor
        if actor is not None:
            try:
                if type(actor) is Actor and actor.shared:
                    call.identity = call.actor = actor
                else:
                    capture_claimed(call)
            except AttributeError:  # an actor that was never finished
                capture_claimed(call)
        call.grace = self._grace
        if request.unusual:
            self._begin_unusual(call, request)
        return call

    def _begin_unusual(self, call: Call, request: Request) -> None:
        call.parent_execution_id = request.parent_execution_id
        if request.timeout is None and request.cancel is None:
            return
        call.guard = guard = CallGuard.around(call)
        if request.timeout is not None:
            call.watch.arm(guard, request.timeout)
        if request.cancel is not None:
            call.watch.follow(request.cancel, guard)

    def carry(self, call: Call, plan: Plan) -> Awaitable[None]:
        """Run the plan, within the dependencies if they are made for each call."""
        if self._dependencies.factory is None:
            return plan.carry(call)
        return self._dependencies.carry(call, plan)

    async def explain(
        self, capability: object, request: Request, surface: str
    ) -> list[tuple[str, str, str | None]]:
        """Run every stage but execution, without any effect, and return the verdicts."""
        call, plan = self.open(capability, request, surface)
        call.dry_run = True
        verdicts = await self._dependencies.explain(call, plan)
        log("explained", level="info", call=call, stages=len(verdicts), verdict=verdicts[-1][1])
        return verdicts


def check(request: Request, surface: object, *, authenticator: bool) -> str:
    """Refuse at once what no caller may say; returns the surface as an exact `str`.

    Raises:
        TypeError: Naming the argument and what it must be.
    """
    named = plain(surface)
    if named is None:
        raise TypeError(f"surface must be a str, got {type(surface).__name__}")
    if request.credentials is not None:
        if request.actor is not None:
            raise TypeError("pass either actor or credentials, not both")
        if not authenticator:
            raise TypeError("credentials need Engine(authenticate=…)")
    if request.timeout is not None:
        request.timeout = to_seconds(request.timeout, "timeout")
    if request.cancel is not None and not isinstance(request.cancel, CancelToken):
        raise TypeError(f"cancel must be a CancelToken, got {type(request.cancel).__name__}")
    request.correlation_id = _text("correlation_id", request.correlation_id)
    request.idempotency_key = _text("idempotency_key", request.idempotency_key)
    return named


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    text = plain(value)
    if text is None or not text.strip():
        raise TypeError(f"{name} must be a str that is not blank")
    return text


def outcome_of(call: Call) -> Outcome[Any]:
    """Return the one outcome of a call that has ended."""
    error = call.error
    if error is not None:
        kind = Cancelled if error.code in _STOPPED else Failed
        return kind(error.execution_id or call.execution_id, error, call.effect)
    if call.suspended is not None:
        return ApprovalRequired(call.execution_id, call.suspended.copy())
    first_id = call.execution_id if call.replay is None else call.replay.execution_id
    return Completed(
        first_id, call.output, call.effect, call.attempts, late=call.late, replayed=call.replayed
    )
