"""One attempt of a handler inside its scope, and the judgement of how it ended.

The order of judgement is the table at the top of `capgate.call.scope`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from capgate.call import Cause, Context, Guard, Interrupted, first, is_exit, stopped
from capgate.errors import CapabilityError, Effect, ErrorCode, normalize
from capgate.pipeline.threads import in_thread

if TYPE_CHECKING:
    from capgate.call import Argument, Call
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime


class Attempt:
    """Runs one capability's handler once."""

    __slots__ = (
        "_bind",
        "_context",
        "_declared",
        "_evidence",
        "_handler",
        "_runtime",
        "_synchronous",
        "timeout",
    )

    def __init__(self, capability: Enrolled, runtime: Runtime) -> None:
        """Bind the handler, its timeout and what it needs."""
        self._handler = capability.definition.handler
        self._bind = capability.definition.contract.bind
        self._context = capability.definition.context
        self._declared = capability.definition.errors
        self._runtime = runtime
        self._synchronous = not inspect.iscoroutinefunction(capability.definition.handler)
        self._evidence = runtime.evidence
        self.timeout = capability.definition.timeout or runtime.attempt_timeout

    async def once(self, call: Call, *, opening: bool = True) -> None:
        """Pass the gate and run the handler; returns when it returned.

        Args:
            call: The call; its `output` is written.
            opening: This is the first attempt: `capability.started` is still to be told.

        Raises:
            CapabilityError: TIMEOUT, CANCELLED, or what the handler's failure became.
            Interrupted: The gate found the call stopped.
            BaseException: A native cancellation, an exit of the process.
        """
        telling = False
        if opening:
            call.attempts = 1
            telling = self._evidence.active
            if telling and not self._evidence.immediate:
                await self._start(call)
                telling = False
        watch = call.watch
        scope = call.scope = watch.new_scope()
        raised: BaseException | None = None
        with scope:
            enclosed = watch.enclosed(scope)
            try:
                task = call.task
                if enclosed or task is None or task.cancelling() or call.guard is not None:
                    pass_gate(call)
                if telling:
                    started = self._evidence.start(call)
                    if started is not None:
                        await call.watch.shielded(started)
                        pass_gate(call)
                watch.arm(call, self.timeout)
                call.running = True
                keywords = self._bind(call.value)
                if self._context is not None:
                    keywords[self._context] = self._make_context(call)
                if self._synchronous:
                    call.output = await self._in_thread(call, keywords)
                else:
                    call.entered = True
                    call.output = await self._handler(**keywords)
                call.returned = True
            except BaseException as error:  # judged below, after the scope is left
                raised = error
            watch.disarm(call)
            call.running = False
        if raised is None and call.cause is None and call.guard is None:
            # Nothing around it could have been cancelled: no need to ask the back end.
            alone = not enclosed and not call.task.cancelling()
            if alone or not call.native():
                call.late = watch.now() >= call.deadline
                return
        self._judge(call, raised)

    async def _start(self, call: Call) -> None:
        """Tell the audit where that takes an await: between two gates, outside the handler's scope."""
        pass_gate(call)
        started = self._evidence.start(call)
        if started is not None:
            await call.watch.shielded(started)

    def _judge(self, call: Call, raised: BaseException | None) -> None:
        call.rest()
        if raised is not None and is_exit(raised):
            raise raised
        now = call.watch.now()
        note_token(call, now)
        if call.native():
            raise raised or Interrupted
        fired = first(call.guard, call)
        if fired is not None and fired.cause is Cause.TOKEN:
            raise CapabilityError(ErrorCode.CANCELLED, effect=Effect.UNKNOWN) from raised
        if raised is None:
            call.late = fired is not None or past(call, now) or past(call.guard, now)
            return
        if fired is not None:
            raise CapabilityError(ErrorCode.TIMEOUT, effect=Effect.UNKNOWN) from raised
        if type(raised) is Interrupted:
            raise raised
        failure = normalize(
            raised,
            declared=self._declared,
            exceptions=self._runtime.exceptions,
            effect=Effect.UNKNOWN,
        )
        call.harmless = failure.effect is Effect.NONE
        raise failure

    def _make_context(self, call: Call) -> Context[Any]:
        return Context(call, nest=self._runtime.nest, synchronous=self._synchronous)

    async def _in_thread(self, call: Call, keywords: dict[str, Argument]) -> Argument:
        result = await in_thread(
            call,
            self._handler,
            keywords,
            threads=self._runtime.threads,
            release=call.take_places(),
        )
        # A plain function may still hand back a coroutine.
        return await result if isinstance(result, Awaitable) else result


def pass_gate(call: Call) -> None:
    """Refuse a call that has been stopped; nothing is awaited between this and the handler.

    Raises:
        Interrupted: It has.
    """
    if stopped(call):
        raise Interrupted


def past(guard: Guard | None, now: float) -> bool:
    """Tell whether a guard's deadline has passed."""
    return guard is not None and now >= guard.deadline


def note_token(call: Call, now: float) -> None:
    """Take up a token that fired while the loop could not see it."""
    token = call.request.cancel
    if token is not None and token.cancelled and call.guard is not None:
        call.guard.note(Cause.TOKEN, now)
