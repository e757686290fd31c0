"""Trying a handler again: only what may be repeated, only while nobody has stopped the call."""

from __future__ import annotations

import random
from math import inf
from typing import TYPE_CHECKING

import anyio

from capgate.errors import CapabilityError
from capgate.pipeline.evidence import frozen

if TYPE_CHECKING:
    from capgate.call import Call
    from capgate.capability import Retry
    from capgate.pipeline.attempt import Attempt
    from capgate.pipeline.runtime import Runtime


class Retrying:
    """Runs an attempt up to `retry.attempts` times.

    That the capability may be repeated at all was checked at its registration.
    """

    __slots__ = ("_attempt", "_retry", "_runtime")

    def __init__(self, attempt: Attempt, retry: Retry, runtime: Runtime) -> None:
        """Bind to one capability's attempt."""
        self._attempt = attempt
        self._retry = retry
        self._runtime = runtime

    def describe(self) -> str:
        """Return what the plan says."""
        return f"up to {self._retry.attempts} attempts"

    async def run(self, call: Call) -> None:
        """Run the handler until it returns or may not be tried again."""
        opening = True
        while True:
            try:
                return await self._attempt.once(call, opening=opening)
            except CapabilityError as error:
                if not self._again(call, error):
                    raise
                failure = error
            await self._pause(call, failure)
            opening = False

    def _again(self, call: Call, error: CapabilityError) -> bool:
        if call.attempts >= self._retry.attempts or not error.retryable or call.halted:
            return False
        if call.guard is not None and call.guard.cause is not None:
            return False
        when = self._retry.when
        try:
            return when is None or when(error) is not False
        except Exception as broken:  # a veto that breaks is a veto
            error.add_note(f"capgate: Retry.when raised {type(broken).__name__}")
            return False

    async def _pause(self, call: Call, error: CapabilityError) -> None:
        call.returned = False
        # A new attempt has a deadline of its own, and nothing has interrupted it.
        call.cause = None
        call.at = call.deadline = inf
        call.doubt = call.doubt or not call.harmless
        await anyio.sleep(self._delay(call.attempts))
        call.attempts += 1
        noted = self._runtime.evidence.note(
            "capability.retried",
            call,
            frozen(attempt=call.attempts, previous_error_code=error.code.value),
        )
        if noted is not None:
            await call.watch.shielded(noted)

    def _delay(self, failed: int) -> float:
        """Return seconds: exponential with full jitter."""
        most = min(self._retry.max_backoff, self._retry.backoff * 2 ** (failed - 1))
        return self._runtime.jitter() * most


def full_jitter() -> float:
    """Return a random share of the back-off, from 0 to 1."""
    return random.random()
