"""Starting a call: what the caller said is checked, and becomes the record that the plan carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capgate.call import (
    ApprovalRequired,
    Call,
    Cancelled,
    CancelToken,
    Completed,
    Failed,
    Guard,
    Request,
    current_watch,
    to_seconds,
)
from capgate.errors import ErrorCode
from capgate.pipeline import capture_claimed

if TYPE_CHECKING:
    from capgate.call import Outcome
    from capgate.engine.dependencies import Dependencies
    from capgate.engine.drain import Live
    from capgate.engine.registry import Registry
    from capgate.pipeline import Plan, Runtime

_STOPPED = frozenset({ErrorCode.TIMEOUT, ErrorCode.CANCELLED})


class Caller:
    """Begins calls for one engine."""

    __slots__ = ("_dependencies", "_live", "_registry", "_runtime")

    def __init__(
        self, registry: Registry, runtime: Runtime, dependencies: Dependencies, live: Live
    ) -> None:
        """Bind to the engine's parts."""
        self._registry = registry
        self._runtime = runtime
        self._dependencies = dependencies
        self._live = live

    async def run(
        self, capability: object, request: Request, surface: str, *, nested: bool = False
    ) -> Call:
        """Carry one call to its end and return its record.

        Raises:
            TypeError: The caller said something that cannot be.
            RuntimeError: The engine has been closed; calls inside a running one still go on.
        """
        if self._live.closing and not nested:
            raise RuntimeError("the engine is closed: it takes no new calls")
        id_, plan = self._registry.plan(capability, surface)
        check(request, surface, authenticator=self._runtime.authenticate is not None)
        call = self.begin(request, id_, plan, surface)
        await self.carry(call, plan)
        return call

    async def explain(
        self, capability: object, request: Request, surface: str
    ) -> list[tuple[str, str, str | None]]:
        """Run every stage but execution, without any effect, and return the verdicts."""
        id_, plan = self._registry.plan(capability, surface)
        check(request, surface, authenticator=self._runtime.authenticate is not None)
        call = self.begin(request, id_, plan, surface)
        call.dry_run = True
        verdicts: list[tuple[str, str, str | None]] = []
        await self._dependencies.explain(call, plan, verdicts)
        call.logger.info("explained", stages=len(verdicts), verdict=verdicts[-1][1])
        return verdicts

    def begin(self, request: Request, id_: str, plan: Plan, surface: str) -> Call:
        """Establish a call's record."""
        call = Call(
            request,
            execution_id=self._runtime.new_id("exe"),
            capability_id=id_,
            surface=surface,
            watch=current_watch(),
        )
        call.grace = self._runtime.cleanup_grace
        capability = plan.capability
        if capability is not None:
            call.view = capability.view
            call.form = capability.definition.contract
        call.deps = self._dependencies.of(request.deps)
        capture_claimed(call)
        if request.timeout is not None or request.cancel is not None:
            _guard(call, request)
        return call

    async def carry(self, call: Call, plan: Plan) -> None:
        """Run the plan while the engine knows of the call."""
        self._live.add(call)
        try:
            if self._dependencies.factory is None:
                await plan.carry(call)
            else:
                await self._dependencies.carry(call, plan)
        finally:
            self._live.discard(call)
            if call.guard is not None and call.request.cancel is not None:
                call.request.cancel.unsubscribe(call.guard)


def _guard(call: Call, request: Request) -> None:
    watch = call.watch
    call.guard = guard = Guard(watch.new_scope(), watch, call)
    if request.timeout is not None:
        watch.arm(guard, request.timeout)
    if request.cancel is not None:
        watch.follow(request.cancel, guard)


def check(request: Request, surface: object, *, authenticator: bool) -> None:
    """Refuse at once what no caller may say.

    Raises:
        TypeError: Naming the argument and what it must be.
    """
    if not isinstance(surface, str):
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
    for name in ("correlation_id", "idempotency_key"):
        value: object = getattr(request, name)
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise TypeError(f"{name} must be a str that is not blank")


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
