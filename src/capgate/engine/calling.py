"""Starting a call: what the caller said is checked and becomes the record of the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from capgate.call import (
    USUAL,
    Actor,
    Call,
    CallGuard,
    CancelToken,
    attach,
    log,
    to_seconds,
)
from capgate.engine.texts import plain
from capgate.pipeline import capture_claimed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from capgate.call import Claim, Request
    from capgate.engine.dependencies import Dependencies
    from capgate.engine.drain import Live
    from capgate.engine.registry import Registry
    from capgate.pipeline import Plan, Runtime

T = TypeVar("T")


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

    def run(
        self,
        capability: object,
        surface: str,
        claim: Claim,
        request: Request,
        end: Callable[[Call], T],
    ) -> Coroutine[Any, Any, T]:
        """Open a call and return its run, which gives what `end` makes of its record.

        Raises:
            TypeError: At once: the caller said something that cannot be.
            RuntimeError: At once: the engine has been closed.
        """
        if self._live.closing:
            self.check_open()
        if request is USUAL and type(surface) is str and self._dependencies.factory is None:
            plan_of, begin = self._plan, self.begin
            id_, plan = plan_of(capability, surface)
            return plan.carry(begin(id_, plan, surface, claim, request), end)
        call, plan = self.open(capability, surface, claim, request)
        return self.carry(call, plan, end)

    def open(
        self, capability: object, surface: str, claim: Claim, request: Request
    ) -> tuple[Call, Plan]:
        """Check what the caller said and establish the call's record.

        Raises:
            TypeError: The caller said something that cannot be.
        """
        if request is not USUAL or type(surface) is not str:
            known = self._runtime.authenticate is not None
            surface = check(request, surface, actor=claim[1], authenticator=known)
        plan_of = self._plan
        id_, plan = plan_of(capability, surface)
        return self.begin(id_, plan, surface, claim, request), plan

    def check_open(self) -> None:
        """Refuse once the engine is closing.

        Raises:
            RuntimeError: It is.
        """
        if self._live.closing:
            raise RuntimeError("the engine is closed: it takes no new calls")

    def begin(self, id_: str, plan: Plan, surface: str, claim: Claim, request: Request) -> Call:
        """Establish a call's record; most attributes have their default there."""
        call = Call()
        new_id = self._new_id
        call.execution_id = execution_id = new_id()
        call.capability_id = id_
        call.surface = surface
        call.view = plan.view
        call.form = plan.form
        call.grace = self._grace
        call.claimed, actor, given = claim
        deps = self._dependencies
        call.deps = deps.value if given is None and deps.simple else deps.of(given)
        if actor is not None:
            try:
                if type(actor) is Actor and actor.shared:
                    call.identity = call.actor = actor
                else:
                    capture_claimed(call, actor)
            except AttributeError:  # an actor that was never finished
                capture_claimed(call, actor)
        call.correlation_id = execution_id
        if request is not USUAL:
            call.request = request
            call.parent_execution_id = request.parent_execution_id
            call.correlation_id = request.correlation_id or execution_id
        return call

    async def carry(self, call: Call, plan: Plan, end: Callable[[Call], T]) -> T:
        """Run a call that has limits of its own, or whose dependencies are made for it."""
        attach(call)
        self._limit(call)
        if self._dependencies.factory is None:
            return await plan.carry_guarded(call, end)
        return await self._dependencies.carry(call, plan, end)

    def _limit(self, call: Call) -> None:
        request = call.request
        if request.timeout is None and request.cancel is None:
            return
        call.guard = guard = CallGuard.around(call)
        if request.timeout is not None:
            call.watch.arm(guard, request.timeout)
        if request.cancel is not None:
            call.watch.follow(request.cancel, guard)

    async def explain(
        self, capability: object, surface: str, claim: Claim, request: Request
    ) -> list[tuple[str, str, str | None]]:
        """Run every stage but execution, without any effect, and return the verdicts."""
        self.check_open()
        call, plan = self.open(capability, surface, claim, request)
        attach(call)
        call.dry_run = True
        verdicts = await self._dependencies.explain(call, plan)
        log("explained", level="info", call=call, stages=len(verdicts), verdict=verdicts[-1][1])
        return verdicts


def check(request: Request, surface: object, *, actor: object, authenticator: bool) -> str:
    """Refuse at once what no caller may say; returns the surface as an exact `str`.

    Raises:
        TypeError: Naming the argument and what it must be.
    """
    named = plain(surface)
    if named is None:
        raise TypeError(f"surface must be a str, got {type(surface).__name__}")
    if request.credentials is not None:
        if actor is not None:
            raise TypeError("pass either actor or credentials, not both")
        if not authenticator:
            raise TypeError("credentials need Engine(authenticate=…)")
    if request.timeout is not None:
        request.timeout = to_seconds(request.timeout, "timeout")
    cancel = cast("object", request.cancel)
    if cancel is not None and not isinstance(cancel, CancelToken):
        raise TypeError(f"cancel must be a CancelToken, got {type(cancel).__name__}")
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
