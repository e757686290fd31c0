"""Trying a handler again: only what may be repeated, only while nobody has stopped the call."""

from __future__ import annotations

from math import inf
from secrets import SystemRandom
from typing import TYPE_CHECKING, Final

from capgate.call import pause, to_seconds
from capgate.errors import CapabilityError, is_exit
from capgate.pipeline.evidence import frozen

if TYPE_CHECKING:
    from capgate.call import Call
    from capgate.capability import Retry
    from capgate.errors import ErrorCode
    from capgate.pipeline.attempt import Attempt
    from capgate.pipeline.runtime import Runtime
    from capgate.pipeline.slots import Places


_random: Final = SystemRandom().random


class Retrying:
    """Runs an attempt up to `retry.attempts` times.

    That the capability may be repeated at all was checked at its registration.
    """

    __slots__ = ("_attempt", "_backoff", "_most", "_places", "_retry", "_runtime")

    def __init__(self, attempt: Attempt, places: Places, retry: Retry, runtime: Runtime) -> None:
        """Bind to one capability's attempt, and the places it is to hold."""
        self._attempt = attempt
        self._places = places
        self._retry = retry
        self._backoff = to_seconds(retry.backoff, "backoff")
        self._most = to_seconds(retry.max_backoff, "max_backoff")
        self._runtime = runtime

    def describe(self) -> str:
        """Return what the plan says."""
        return f"up to {self._retry.attempts} attempts"

    async def run(self, call: Call) -> None:
        """Run the handler until it returns or may not be tried again."""
        number = 1
        while True:
            try:
                return await self._attempt.once(call, number)
            except CapabilityError as error:
                if not self._again(call, error, number):
                    raise
                code = error.code
            number += 1
            await self._pause(call, number - 1)
            await self._tell(call, number, code)

    def _again(self, call: Call, error: CapabilityError, number: int) -> bool:
        # What kept the handler from being entered at all is not what retries are for.
        if number >= self._retry.attempts or not error.retryable or not call.entered:
            return False
        if call.guard is not None and call.guard.cause is not None:
            return False
        when = self._retry.when
        try:
            return when is None or when(error) is not False
        except BaseException as broken:  # a veto that breaks is a veto
            if is_exit(broken):
                raise
            error.add_note(f"capgate: Retry.when raised {type(broken).__name__}")
            return False

    async def _pause(self, call: Call, failed: int) -> None:
        call.returned = False
        # A new attempt has a deadline of its own, and nothing has interrupted or refused it.
        call.cause = call.denial = None
        call.at = call.deadline = inf
        call.doubt = call.doubt or not call.harmless
        call.harmless = False
        await pause(call, self._delay(failed))
        # A thread that was left behind took the places with it: no attempt runs beside it.
        if not call.places:
            await self._places.take(call)

    async def _tell(self, call: Call, number: int, code: ErrorCode) -> None:
        if not self._runtime.evidence.active:
            return
        data = frozen(attempt=number, previous_error_code=code.value)
        noted = self._runtime.evidence.note("capability.retried", call, data)
        if noted is not None:
            await call.watch.shielded(noted)

    def _delay(self, failed: int) -> float:
        """Return seconds: exponential with full jitter."""
        longest = min(self._most, self._backoff * 2.0 ** min(failed - 1, 64))
        return self._runtime.jitter() * longest


def full_jitter() -> float:
    """Return a random share of the back-off, from 0 to 1."""
    return _random()
