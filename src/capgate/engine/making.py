"""Making the dependencies of one call with a factory, and leaving them when the call has ended.

A scope of ours surrounds the making, and what was entered until it is left: a context manager may
hold a scope of its own open all that time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from capgate.call import (
    Guard,
    Interrupted,
    Invocation,
    Overrun,
    Stray,
    is_awaitable,
    log,
    resume_native,
)
from capgate.errors import is_exit

if TYPE_CHECKING:
    from capgate.call import Call, Scope

Factory: TypeAlias = Callable[[Invocation], object]


class Made(NamedTuple):
    """What a factory left: deps, a context manager that has been entered, or why there are none."""

    deps: Any = None
    entered: AbstractAsyncContextManager[Any] | None = None
    scope: Scope | None = None
    broken: BaseException | None = None


async def make(
    call: Call, factory: Factory, check: Callable[[object], None], *, seconds: float
) -> Made:
    """Ask `factory`, and enter what it gave if that is a context manager; raises nothing.

    Args:
        call: Whose deps they are; what stops it stops the making.
        factory: The application's.
        check: Raises for what are no deps.
        seconds: How long it may take, entering included.
    """
    watch, guard = call.watch, call.guard
    scope = watch.new_scope()
    limit = Guard(scope, watch)
    watch.arm(limit, seconds)
    if guard is not None:
        guard.scope = scope
    scope.__enter__()
    try:
        made = await _ask(call, factory, check)
    except GeneratorExit:
        close(call, scope)
        raise
    finally:
        limit.rest()
        if guard is not None:
            # A scope is entered once: the next is for the plan.
            guard.scope = watch.new_scope()
    stopped = _out_of_time(limit) or (guard is not None and guard.cause is not None)
    if made.broken is None and not stopped:
        if made.entered is not None:
            return made._replace(scope=scope)
        close(call, scope)
        return made
    await leave(call, made._replace(scope=scope), seconds)
    return Made(broken=await _reason(call, limit, made.broken))


async def _ask(call: Call, factory: Factory, check: Callable[[object], None]) -> Made:
    """Return what the factory left, whatever it raised included."""
    entered: AbstractAsyncContextManager[Any] | None = None
    try:
        deps: Any = factory(Invocation(call))
        if is_awaitable(deps):
            deps = await deps
        if isinstance(deps, AbstractAsyncContextManager):
            manager = cast("AbstractAsyncContextManager[Any]", deps)
            deps = await manager.__aenter__()
            entered = manager
        check(deps)
    except BaseException as raised:  # judged once the scope is left
        return Made(None, entered, None, raised)
    return Made(deps, entered)


def _out_of_time(limit: Guard) -> bool:
    return limit.cause is not None or limit.watch.now() >= limit.deadline


async def _reason(call: Call, limit: Guard, raised: BaseException | None) -> BaseException:
    """Return why there are no deps: what stopped the call, before what broke on the way out."""
    if raised is not None and is_exit(raised):
        return raised
    reason: BaseException | None = raised
    if call.native():
        try:
            await resume_native(raised)
        except BaseException as native:
            return native
    if call.guard is not None and call.guard.cause is not None:
        reason = Interrupted()
    elif _out_of_time(limit):
        reason = Overrun("the dependencies were not made in time")
    elif reason is None or not issubclass(type(reason), Exception):
        reason = Stray("cancelled itself")
    if reason is not raised:
        reason.__cause__ = raised
    return reason


async def leave(call: Call, made: Made, seconds: float) -> None:
    """Leave what was entered, shielded; a failure is reported and changes nothing.

    No scope of ours is entered for it: what the context manager holds open was opened before. The
    one around it all is the shield and the limit.
    """
    if made.entered is not None and made.scope is not None:
        made.scope.shield = True
        limit = Guard(made.scope, call.watch)
        call.watch.arm(limit, seconds)
        try:
            await made.entered.__aexit__(None, None, None)
        except BaseException as error:
            if is_exit(error):
                raise
            if isinstance(error, Exception) or limit.cause is not None or not call.native():
                log("deps_exit_failed", call=call, error=error)
        finally:
            limit.rest()
            close(call, made.scope)
    else:
        close(call, made.scope)


def close(call: Call, scope: Scope | None) -> None:
    """Leave the scope around what was made, unless something in it has been left open."""
    if scope is not None:
        try:
            scope.__exit__(None, None, None)
        except Exception as error:
            log("deps_exit_failed", call=call, error=error)
