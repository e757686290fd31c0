"""One attempt of a handler inside its scope, and the judgement of how it ended.

The order of judgement is the table at the top of `capgate.call.scope`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from capgate.call import Context
from capgate.call import Cause, Guard
from capgate.call import Interrupted, first, is_exit, stopped
from capgate.errors import CapabilityError, Effect, ErrorCode, normalize
from capgate.pipeline.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from capgate.call import Call
    from capgate.call import Argument
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime


class Attempt:
    """Runs one capability's handler once."""

    __slots__ = (
        "_bind",
        "_context",
        "_declared",
        "_handler",
        "_run",
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
        self._run: Callable[[Call], Awaitable[Argument]] = (
            self._enter_thread if self._synchronous else self._enter
        )
        self.timeout = capability.definition.timeout or runtime.attempt_timeout

    async def once(self, call: Call, *, gated: bool) -> None:
        """Run the handler; returns when it returned.

        Args:
            call: The call; its `output` is written.
            gated: The gate was passed and nothing has been awaited since.

        Raises:
            CapabilityError: TIMEOUT, CANCELLED, or what the handler's failure became.
            Interrupted: The gate found the call stopped.
            BaseException: A native cancellation, an exit of the process.
        """
        watch = call.watch
        guard = call.running = Guard(watch.new_scope(), watch, call)
        raised: BaseException | None = None
        with guard.scope:
            watch.arm(guard, self.timeout)
            if gated or not stopped(call):
                try:
                    call.output = await self._run(call)
                except BaseException as error:  # noqa: BLE001  judged below, after the scope is left
                    raised = error
                else:
                    call.returned = True
            else:
                raised = Interrupted()
            watch.disarm(guard)
        undisturbed = raised is None and guard.cause is None and call.guard is None
        if undisturbed and not watch.native(call.baseline):
            call.late = watch.now() >= guard.deadline
            return
        self._judge(call, guard, raised)

    def _judge(self, call: Call, guard: Guard, raised: BaseException | None) -> None:
        guard.rest()
        if raised is not None and is_exit(raised):
            raise raised
        now = call.watch.now()
        note_token(call, now)
        if call.watch.native(call.baseline):
            raise raised or Interrupted
        fired = first(call.guard, guard)
        if fired is not None and fired.cause is Cause.TOKEN:
            raise CapabilityError(ErrorCode.CANCELLED) from raised
        if raised is None:
            call.late = fired is not None or past(guard, now) or past(call.guard, now)
            return
        if fired is not None:
            raise CapabilityError(ErrorCode.TIMEOUT) from raised
        if isinstance(raised, Interrupted):
            raise raised
        raise normalize(
            raised,
            declared=self._declared,
            exceptions=self._runtime.exceptions,
            effect=Effect.UNKNOWN,
        )

    def _keywords(self, call: Call) -> dict[str, Argument]:
        keywords = self._bind(call.value)
        if self._context is not None:
            keywords[self._context] = Context[Any](
                call, nest=self._runtime.nest, synchronous=self._synchronous
            )
        return keywords

    async def _enter(self, call: Call) -> Argument:
        keywords = self._keywords(call)
        call.entered = True
        return await self._handler(**keywords)  # type: ignore[misc]  # a coroutine function

    async def _enter_thread(self, call: Call) -> Argument:
        result = await in_thread(
            call,
            self._handler,
            self._keywords(call),
            threads=self._runtime.threads,
            release=call.take_places(),
        )
        # A plain function may still hand back a coroutine.
        return await result if isinstance(result, Awaitable) else result


def past(guard: Guard | None, now: float) -> bool:
    """Tell whether a guard's deadline has passed."""
    return guard is not None and now >= guard.deadline


def note_token(call: Call, now: float) -> None:
    """Take up a token that fired while the loop could not see it."""
    token = call.request.cancel
    if token is not None and token.cancelled and call.guard is not None:
        call.guard.note(Cause.TOKEN, now)
