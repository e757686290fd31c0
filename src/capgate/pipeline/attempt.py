"""One attempt of a handler inside its scope, and the judgement of how it ended.

The order of judgement is the table at the top of `capgate.call.scope`.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from capgate.call import (
    ARM,
    DISARM,
    Cause,
    Context,
    Guard,
    Interrupted,
    first,
    is_awaitable,
    is_closing,
    stopped,
)
from capgate.errors import CapabilityError, Effect, ErrorCode, is_exit, normalize
from capgate.pipeline.evidence import FIRST
from capgate.pipeline.handler_start import first_data, starter
from capgate.pipeline.threads import in_thread
from capgate.pipeline.weaving import Piece, filled

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.call import Argument, Call
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime


# Python enters and leaves a scope by name at three quarters of the cost of `with`.
_ONCE: Final = """\
new_scope, parent = watch.new_scope, watch.parent
scope = call.scope = new_scope()
caught = None
scope.__enter__()
try:
    enclosed = parent(scope) is not None
    try:
        if enclosed or task is None or task.cancelling() or call.guard is not None:
            pass_gate(call)
        {started}
        keywords = bind_input(call.value)
        {arm}
        call.running = True
        call.attempts = 1
        {given}
        call.entered = True
        call.output = await handler(**keywords)
        call.returned = True
    except BaseException as error:  # judged below, after the scope is left
        caught = error
    {disarm}
    call.running = False
except BaseException as error:
    if not scope.__exit__(type(error), error, error.__traceback__):
        raise
else:
    scope.__exit__(None, None, None)
# Where nothing around it could have been cancelled there is no need to ask the back end.
if (caught is None and call.cause is None and call.guard is None) and (
    (not enclosed and not task.cancelling()) or not watch.native(task, call.baseline)
):
    call.late = now() >= call.deadline
else:
    judge(call, caught)
"""
_TOLD: Final = """\
if noted is not None:
    await told(call, noted)
"""


class Attempt:
    """Runs one capability's handler once, or finds the call stopped before that.

    What it raises is the failure itself, `Interrupted`, a native cancellation, or an exit.
    """

    __slots__ = (
        "_bind",
        "_context",
        "_declared",
        "_handler",
        "_runtime",
        "_synchronous",
        "_tell",
        "_telling",
        "timeout",
    )

    timeout: float

    def __init__(self, capability: Enrolled, runtime: Runtime) -> None:
        """Bind the handler, its timeout and what it needs."""
        self._handler = capability.definition.handler
        self._bind = capability.definition.contract.bind
        self._context = capability.definition.context
        self._declared = capability.definition.errors
        self._runtime = runtime
        self._synchronous = not capability.definition.is_async
        self._telling = runtime.evidence.active
        self._tell = starter(runtime)
        self.timeout = capability.definition.timeout or runtime.attempt_timeout

    async def once(self, call: Call, number: int = 1) -> None:
        """Pass the gate, tell `capability.started` the first time, run the handler."""
        watch, task = call.watch, call.task
        new_scope, parent, bind, handler = watch.new_scope, watch.parent, self._bind, self._handler
        scope = call.scope = new_scope()
        raised: BaseException | None = None
        with scope:
            enclosed = parent(scope) is not None
            try:
                if enclosed or task is None or task.cancelling() or call.guard is not None:
                    pass_gate(call)
                if self._telling and number == 1:
                    tell = self._tell
                    started = tell("capability.started", call, first_data(call.approval))
                    if started is not None:
                        await self._told(call, started)
                keywords = bind(call.value)
                watch.arm(call, self.timeout)
                call.running = True
                call.attempts = number
                if self._context is not None:
                    keywords[self._context] = self._make_context(call)
                if self._synchronous:
                    call.output = await self._in_thread(call, keywords)
                else:
                    call.entered = True
                    call.output = await handler(**keywords)
                call.returned = True
            except BaseException as error:  # judged below, after the scope is left
                raised = error
            watch.disarm(call)
            call.running = False
        # Where nothing around it could have been cancelled there is no need to ask the back end.
        if (raised is None and call.cause is None and call.guard is None) and (
            (not enclosed and not call.task.cancelling()) or not watch.native(task, call.baseline)
        ):
            now = watch.now
            call.late = now() >= call.deadline
            return
        self._judge(call, raised)

    def piece(self) -> Piece | None:
        """Return the lines of `once` for a first attempt; None where more may have to be said."""
        if self._synchronous or self._runtime.evidence.strict:
            return None
        told = self._runtime.evidence.piece("capability.started", "first", _TOLD, first=FIRST)
        names: dict[str, object] = {
            **told.names,
            "pass_gate": pass_gate,
            "told": self._told,
            "bind_input": self._bind,
            "seconds": self.timeout,
            "handler": self._handler,
            "judge": self._judge,
        }
        given = ""
        if self._context is not None:
            names |= {"context": self._context, "make_context": self._make_context}
            given = "keywords[context] = make_context(call)\n"
        blocks = {"started": told.text, "given": given, "arm": ARM, "disarm": DISARM}
        return Piece(filled(_ONCE, **blocks), names)

    async def _told(self, call: Call, started: Awaitable[None]) -> None:
        """Wait until it is told that the handler starts, then look again whether it may."""
        await call.watch.shielded(started)
        pass_gate(call)

    def _judge(self, call: Call, raised: BaseException | None) -> None:
        call.rest()
        if raised is not None and (is_exit(raised) or is_closing(raised)):
            raise raised
        if call.deadline == inf and raised is not None:
            raise _before_the_handler(call, raised)
        now = call.watch.now()
        note_token(call, now)
        fired = first(call)
        # While the outer scope is open and cancelled, only the ending can tell a native stop.
        if (call.guard is None or call.guard.cause is None) and call.native():
            raise _let_out(raised)
        if fired is not None and fired.cause is Cause.TOKEN:
            raise CapabilityError(ErrorCode.CANCELLED) from raised
        if raised is None:
            call.late = fired is not None or past(call, now) or past(call.guard, now)
            return
        if fired is not None:
            raise CapabilityError(ErrorCode.TIMEOUT) from raised
        raise raised if call.denial is not None else self._failure(call, raised)

    def _failure(self, call: Call, raised: BaseException) -> CapabilityError:
        """Return what the exception of the handler becomes."""
        failure = normalize(
            raised,
            declared=self._declared,
            exceptions=self._runtime.exceptions,
            effect=Effect.UNKNOWN,
        )
        call.harmless = failure.effect is Effect.NONE
        return failure

    def _make_context(self, call: Call) -> Context[Any]:
        return Context(call, nest=self._runtime.nest, synchronous=self._synchronous)

    async def _in_thread(self, call: Call, keywords: dict[str, Argument]) -> Argument:
        result = await in_thread(call, self._handler, keywords, threads=self._runtime.threads)
        # A plain function may still hand back a coroutine.
        return await result if is_awaitable(result) else result


def pass_gate(call: Call) -> None:
    """Refuse a call that has been stopped; nothing is awaited between this and the handler.

    Raises:
        Interrupted: It has.
    """
    if call.guard is None:  # then nothing but its caller can have stopped it
        if call.watch.native(call.task, call.baseline):
            raise Interrupted
    elif stopped(call):
        raise Interrupted


def past(guard: Guard | None, now: float) -> bool:
    """Tell whether a guard's deadline has passed."""
    return guard is not None and now >= guard.deadline


def note_token(call: Call, now: float) -> None:
    """Take up a token that fired while the loop could not see it."""
    token = call.request.cancel
    if token is not None and token.cancelled and call.guard is not None:
        call.guard.note(Cause.TOKEN, now)


def _before_the_handler(call: Call, raised: BaseException) -> BaseException:
    """Return how an attempt ends that never got to its handler: stopped, if it has been."""
    if type(raised) is Interrupted or not stopped(call):
        return raised
    return _let_out(raised)


def _let_out(raised: BaseException | None) -> BaseException:
    """Return what carries a stop on: never an error that claims to be a verdict."""
    if raised is not None and not issubclass(type(raised), Exception):
        return raised
    stop = Interrupted()
    stop.__cause__ = raised
    return stop
