"""The desk's own stages of the pipeline: office hours, and a rate per actor.

Both take their time from the clock they are given, so a test or a replay decides what time it is.
"""

from __future__ import annotations

from collections import defaultdict, deque
from datetime import datetime, timedelta
from math import ceil
from typing import Final

from typing_extensions import override

from capgate import (
    CapabilityError,
    ErrorCode,
    FailureStage,
    Invocation,
    Skip,
    Stage,
    Step,
)
from capgate.call import Clock
from capgate.capability import CapabilityView

SATURDAY: Final = 5


class BusinessHours(Stage):
    """Money and personal data move while the desk is staffed: weekdays, in UTC.

    It stands before execution and runs again on resume, so an approval that was given in the
    evening waits for the morning without being spent.
    """

    name = "business-hours"
    failure_stage = FailureStage.POLICY

    def __init__(self, clock: Clock, *, opens: int = 8, closes: int = 18) -> None:
        self._clock = clock
        self._opens = opens
        self._closes = closes

    @override
    def bind(self, capability: CapabilityView) -> Step | Skip:
        """Cost nothing for capabilities without the tag."""
        if "office-hours" not in capability.tags:
            return Skip("not tagged office-hours")
        return super().bind(capability)

    @override
    def run(self, invocation: Invocation) -> None:
        """Refuse outside the hours."""
        now = self._clock.now()
        if now.weekday() >= SATURDAY or not self._opens <= now.hour < self._closes:
            raise CapabilityError(
                ErrorCode.POLICY_DENIED,
                f"The desk is open on weekdays, {self._opens}:00 to {self._closes}:00 UTC.",
                reason="office-hours",
            )


class RateWindow(Stage):
    """A sliding window: each actor makes at most `limit` bulk calls in `per`."""

    name = "rate-window"
    failure_stage = FailureStage.POLICY
    on_resume = False

    def __init__(self, clock: Clock, *, limit: int, per: timedelta) -> None:
        self._clock = clock
        self._limit = limit
        self._per = per
        self._calls: defaultdict[tuple[str, str], deque[datetime]] = defaultdict(deque)

    @override
    def bind(self, capability: CapabilityView) -> Step | Skip:
        """Cost nothing for capabilities without the tag."""
        if "bulk" not in capability.tags:
            return Skip("not tagged bulk")
        return super().bind(capability)

    @override
    def run(self, invocation: Invocation) -> None:
        """Refuse the call that is one too many, and say when to come back."""
        now = self._clock.now()
        calls = self._calls[invocation.capability.id, invocation.actor.id]
        while calls and calls[0] <= now - self._per:
            calls.popleft()
        if len(calls) >= self._limit:
            wait = (calls[0] + self._per - now).total_seconds()
            raise CapabilityError(ErrorCode.RATE_LIMITED, details={"retry_after": ceil(wait)})
        calls.append(now)
