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

from collections.abc import Awaitable, Callable
from importlib import import_module
from threading import get_ident
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import anyio.lowlevel

from capgate.call.guard import Cause, Guard, Watch
from capgate.call.on_asyncio import AsyncioWatch, running_loop, runs_a_task

if TYPE_CHECKING:
    from capgate.call.invocation import Call

T = TypeVar("T")

_watch_of_run: Final[anyio.lowlevel.RunVar[Watch]] = anyio.lowlevel.RunVar("capgate_watch")


_EXITS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
# The member of the builtin itself: a subclass cannot answer for its leaves.
_leaves_of: Final[Callable[[BaseException], tuple[BaseException, ...]]] = vars(BaseExceptionGroup)[
    "exceptions"
].__get__


class _Recent:
    """The asyncio watch used last: most processes run one loop."""

    watch: Watch | None = None


def current_watch() -> Watch:
    """Return the watchdog of the running event loop.

    Raises:
        RuntimeError: No supported event loop is running.
    """
    # A thread runs one loop at a time: if this is its thread and it runs a task, it is the one.
    # Asking asyncio for the running loop costs a system call.
    recent = _Recent.watch
    if recent is not None and recent.thread == get_ident() and recent.task() is not None:
        return recent
    watch = _watch_of_run.get(None)
    if watch is None:
        loop = running_loop()
        plain = loop is not None and runs_a_task(loop)
        watch = AsyncioWatch(loop) if loop is not None and plain else _trio_watch()
        _watch_of_run.set(watch)
    if watch.name == "asyncio":
        _Recent.watch = watch
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


def is_exit(raised: BaseException) -> bool:
    """Tell whether `raised` must leave the process untouched, a group's leaf included.

    The real type is asked: an object of foreign code may lie about its class, or raise when read.
    """
    kind = type(raised)
    if issubclass(kind, BaseExceptionGroup):
        return any(is_exit(leaf) for leaf in _leaves_of(raised))
    return issubclass(kind, _EXITS)


def first(*guards: Guard | None) -> Guard | None:
    """Return the guard whose cause came first, None when nothing fired."""
    fired = [guard for guard in guards if guard is not None and guard.cause is not None]
    return min(fired, key=lambda guard: guard.at, default=None)


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


async def bounded(awaitable: Awaitable[T], seconds: float) -> T:
    """Await foreign code for at most `seconds`.

    Raises:
        Overrun: It did not answer in time; a late answer is no answer.
        Stray: It raised a cancellation that nobody asked for.
    """
    watch = current_watch()
    task = watch.task()
    baseline = watch.baseline(task)
    raised: BaseException | None = None
    with anyio.CancelScope(deadline=watch.now() + seconds) as scope:
        try:
            result = await awaitable
        except BaseException as error:
            raised = error
    cancelled = anyio.get_cancelled_exc_class()
    if raised is not None and (is_exit(raised) or watch.native(task, baseline)):
        raise raised
    if watch.now() >= scope.deadline:
        raise Overrun(f"no answer within {seconds:g} s") from raised
    if raised is not None and issubclass(type(raised), cancelled):
        raise Stray("cancelled itself") from raised
    if raised is not None:
        raise raised
    return result  # pyright: ignore[reportPossiblyUnbound]  bound when nothing was raised


async def call_bounded(
    function: Callable[..., Awaitable[T] | T], *args: object, seconds: float
) -> T:
    """Call foreign code, sync or async; awaits what it returns for at most `seconds`."""
    result = function(*args)
    if isinstance(result, Awaitable):
        return await bounded(result, seconds)
    return result


async def resume_native(raised: BaseException | None) -> None:
    """Let a native cancellation go on: the handler's own exception if it let it out, else a new one."""
    if raised is not None and _holds_cancellation(raised):
        raise raised
    # A checkpoint takes up a cancellation still pending, so that it is not delivered twice.
    await anyio.lowlevel.checkpoint()
    raise anyio.get_cancelled_exc_class()()


def _holds_cancellation(raised: BaseException) -> bool:
    kind = type(raised)
    if issubclass(kind, BaseExceptionGroup):
        return any(_holds_cancellation(leaf) for leaf in _leaves_of(raised))
    return issubclass(kind, anyio.get_cancelled_exc_class())
