"""The composite scope: joins a call's deadline and its token, and tells afterwards who ended it.

Every stretch of foreign code runs inside one cancel scope. Whatever it raises is caught inside
that scope, the scope is left clean, and the outcome is judged from what was recorded: never from
`cancelled_caught`, never from an exception's message.

| judged in this order | outcome |
|---|---|
| GeneratorExit, KeyboardInterrupt, SystemExit, also inside a group | re-raised untouched |
| the caller's task or a scope around it was cancelled | the native cancellation goes on |
| the token came first | CANCELLED |
| a value was returned | completed, late if the deadline had passed |
| the deadline came first | TIMEOUT |
| anything raised | that failure |
"""

from __future__ import annotations

import dis
from collections.abc import Awaitable, Callable
from importlib import import_module
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeGuard, TypeVar, cast

import anyio
import anyio.lowlevel

from capgate.call.guard import RECENT, Cause, Guard, Watch
from capgate.call.on_asyncio import AsyncioWatch, running_loop, runs_a_task
from capgate.errors import is_exit, members_of

if TYPE_CHECKING:
    from capgate.call.invocation import Call

T = TypeVar("T")

_watch_of_run: Final[anyio.lowlevel.RunVar[Watch]] = anyio.lowlevel.RunVar("capgate_watch")


def attach(call: Call) -> None:
    """Tie a record to the task that carries it, from now on.

    Raises:
        RuntimeError: No supported event loop is running.
    """
    # A thread runs one loop at a time: if this is its thread and it runs a task, it is the one.
    # Asking asyncio for the running loop costs a system call.
    watch, task = RECENT.watch, None
    if watch is not None and watch.thread == get_ident():
        current_task = watch.task
        task = current_task()
    if watch is None or task is None:
        watch = current_watch()
        task = watch.task()
    now = watch.now
    call.watch = watch
    call.task = task
    call.started_at = now()
    if task is not None and task.cancelling():
        call.baseline = watch.baseline(task)


def current_watch() -> Watch:
    """Return the watchdog of the running event loop.

    Raises:
        RuntimeError: No supported event loop is running.
    """
    recent = RECENT.watch
    if recent is not None and recent.runs_here():
        return recent
    watch = _watch_of_run.get(None)
    if watch is None:
        loop = running_loop()
        plain = loop is not None and runs_a_task(loop)
        watch = AsyncioWatch(loop) if loop is not None and plain else _trio_watch()
        _watch_of_run.set(watch)
    RECENT.watch = watch
    return watch


def in_event_loop() -> bool:
    """Tell whether an event loop runs in this thread."""
    try:
        current_watch()
    except (RuntimeError, ImportError):
        return False
    return True


def _trio_watch() -> Watch:
    # By name: trio is optional, and only present where it runs.
    watch: Watch = import_module("capgate.call.on_trio").watch_current_run()
    return watch


class Interrupted(Exception):
    """A gate found the call stopped before foreign code was entered."""


class Overrun(Exception):
    """A bounded await ran out of time."""


class Stray(Exception):
    """Foreign code raised a cancellation that nobody asked for; the cause holds it."""


class Halted(BaseException):
    """The engine is closing and has stopped the call; no container of failures holds this back."""


def is_closing(raised: BaseException) -> bool:
    """Tell whether the coroutine is being closed, also where a handler awaited on regardless.

    Python has then raised an error in place of the exit, at an await. Where the same error comes
    out of a call or a raise, foreign code closed a coroutine of its own, or made it up.
    """
    if type(raised) is RuntimeError and raised.args == ("coroutine ignored GeneratorExit",):
        return _raised_at_an_await(raised)
    return issubclass(type(raised), GeneratorExit)


def _raised_at_an_await(raised: BaseException) -> bool:
    traceback = raised.__traceback__
    if traceback is None:
        return False
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    instruction = dis.opname[traceback.tb_frame.f_code.co_code[traceback.tb_lasti]]
    return not instruction.startswith(("CALL", "PRECALL", "RAISE"))


def first(call: Call) -> Guard | None:
    """Return the guard of `call` whose cause came first, None when nothing fired.

    A token that fired after the instant of a deadline, or at that instant, came second, also where
    the loop was blocked and could not fire the deadline.
    """
    outer = call.guard
    if outer is None or outer.cause is None:
        return None if call.cause is None else call
    if outer.cause is Cause.TOKEN and call.deadline <= outer.at:
        call.note(Cause.DEADLINE, call.deadline)
    if call.cause is None or outer.at < call.at:
        return outer
    return outer if outer.at == call.at and outer.cause is Cause.DEADLINE else call


def stopped(call: Call) -> bool:
    """Tell, right before foreign code is entered, whether the call has been stopped.

    Checks the token's flag and the clock, which the loop may not have seen yet, then the task
    and the scopes around it.
    """
    if call.halted:
        return True
    guard = call.guard
    if guard is not None:
        token = call.request.cancel
        if token is not None and token.cancelled:
            guard.fire(Cause.TOKEN)
        elif call.watch.now() >= guard.deadline:
            guard.fire(Cause.DEADLINE)
        if guard.cause is not None:
            return True
    return call.watch.native(call.task, call.baseline)


async def bounded(awaitable: Awaitable[T], seconds: float, call: Call | None = None) -> T:
    """Await foreign code for at most `seconds`.

    Args:
        awaitable: What to await.
        seconds: How long.
        call: Whose stage waits: it can be halted then.

    Raises:
        Overrun: It did not answer in time; a late answer is no answer.
        Stray: It raised a cancellation that nobody asked for, or what else is no `Exception`.
        Halted: The engine stopped the call.
    """
    watch = current_watch()
    task = watch.task()
    baseline = watch.baseline(task)
    raised: BaseException | None = None
    result = cast("T", None)
    with anyio.CancelScope(deadline=watch.now() + seconds) as scope:
        if call is not None:
            call.waiting = scope
        try:
            result = await awaitable
        except BaseException as error:
            raised = error
    if call is not None:
        call.waiting = None
    # Whatever broke on the way out, what stopped the call goes on.
    if raised is not None and (is_exit(raised) or watch.native(task, baseline)):
        await resume_native(raised)
    if raised is not None and call is not None and call.halted:
        raise Halted from raised
    if watch.now() >= scope.deadline:
        raise Overrun(f"no answer within {seconds:g} s") from raised
    if raised is not None:
        raise _contained(raised)
    return result


def _contained(raised: BaseException) -> BaseException:
    """Return what foreign code raised as an exception that can be contained, exits excepted."""
    if is_exit(raised) or issubclass(type(raised), Exception):
        return raised
    stray = Stray("cancelled itself" if _holds_cancellation(raised) else "raised no Exception")
    stray.__cause__ = raised
    return stray


def is_awaitable(value: object) -> TypeGuard[Awaitable[Any]]:
    """Tell whether a value has to be awaited; its real type is asked, as values may lie."""
    return issubclass(type(value), Awaitable)


async def call_bounded(
    function: Callable[..., Awaitable[T] | T],
    *args: object,
    seconds: float,
    call: Call | None = None,
) -> T:
    """Call foreign code, sync or async; awaits what it returns as `bounded` does."""
    try:
        result = function(*args)
    except BaseException as raised:
        # No cancellation reaches synchronous code: one raised there is made up.
        contained = _contained(raised)
        if contained is raised:
            raise
        raise contained from raised
    return await bounded(result, seconds, call) if is_awaitable(result) else cast("T", result)


async def pause(call: Call, seconds: float) -> None:
    """Wait between two attempts.

    Raises:
        Interrupted: The engine stopped the call meanwhile.
    """
    scope = call.waiting = call.watch.new_scope()
    try:
        with scope:
            await anyio.sleep(seconds)
    finally:
        call.waiting = None
    if call.halted:
        raise Interrupted


async def resume_native(raised: BaseException | None) -> NoReturn:
    """Let a native cancellation go on: as the handler's own exception if it let it out.

    An exit of the process goes on as it is.
    """
    if raised is not None and (is_exit(raised) or _holds_cancellation(raised)):
        raise raised
    # A checkpoint takes up a cancellation still pending, so that it is not delivered twice.
    await anyio.lowlevel.checkpoint()
    cancelled = anyio.get_cancelled_exc_class()
    raise cancelled


def sole_leaf(raised: BaseException) -> BaseException:
    """Return the one exception in a group of one, however deep; else what was raised."""
    while issubclass(type(raised), BaseExceptionGroup):
        leaves = members_of(raised)
        if len(leaves) != 1:
            return raised
        raised = leaves[0]
    return raised


def _holds_cancellation(raised: BaseException) -> bool:
    kind = type(raised)
    if issubclass(kind, BaseExceptionGroup):
        return any(_holds_cancellation(leaf) for leaf in members_of(raised))
    return issubclass(kind, anyio.get_cancelled_exc_class())
