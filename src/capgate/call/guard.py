"""Who stopped a call first, its deadline or its token, and the one watchdog behind all deadlines.

Two laws. The first cause is kept and never replaced. A deadline fires at its instant, so a token
that fires after that instant, because the loop was blocked, comes second.
Nothing here decides an outcome: `scope.py` does, from what is recorded here.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from capgate.call.forking import at_fork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from capgate.call.token import CancelToken


class Cause(Enum):
    """What interrupted a call."""

    DEADLINE = auto()
    TOKEN = auto()


class Scope(Protocol):
    """A cancel scope, anyio's or trio's own."""

    @property
    def shield(self) -> bool:
        """Whether cancellations from outside are held back."""
        ...

    @shield.setter
    def shield(self, value: bool, /) -> None: ...

    def cancel(self) -> None:
        """Cancel what runs inside."""
        ...

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> bool | None: ...


@dataclass(slots=True, eq=False, repr=False)
class Guard:
    """One interruptible stretch of a call, and what interrupted it first."""

    scope: Scope = cast("Scope", None)  # noqa: RUF009  set before it is armed
    watch: Watch = cast("Watch", None)  # noqa: RUF009  set before it is armed
    at: float = math.inf
    cause: Cause | None = None
    deadline: float = math.inf
    lane: dict[Guard, None] | None = None
    grace: float = 5.0
    call_off: Callable[[], None] | None = None

    def fire(self, cause: Cause) -> None:
        """Interrupt, unless something already has."""
        if self.cause is None:
            self.note(cause, self.watch.now())
            self.watch.disarm(self)
            self.call_off = self.watch.after(self.grace, self.overran)
            self.scope.cancel()

    def rest(self) -> None:
        """Watch no longer, neither the deadline nor how long a handler cleans up: it has ended."""
        self.watch.disarm(self)
        if self.call_off is not None:
            self.call_off()
            self.call_off = None

    def note(self, cause: Cause, now: float) -> None:
        """Record the cause; the deadline's, where its instant came first."""
        if self.cause is None:
            late = now >= self.deadline
            self.cause = Cause.DEADLINE if late else cause
            self.at = self.deadline if late else now

    def overran(self) -> None:
        """Report that what was interrupted outlasts its grace."""


class Watch(ABC):
    """The deadlines of every live call of one event loop, behind one timer.

    Guards with the same duration share a lane. A lane is in order of deadline by construction,
    so arming, disarming and finding the next one to fire all take constant time.
    """

    name: str
    new_scope: Callable[[], Scope]
    now: Callable[[], float]
    task: Callable[[], Any]
    parent: Callable[[Scope], object]
    """The scope around one that has been entered, None if there is none; anything if unknown."""

    thread: int
    lanes: dict[float, dict[Guard, None]]
    due: float

    def __init__(self) -> None:
        """Start with nothing to watch."""
        self.lanes = {}
        self.due = math.inf
        self.thread = threading.get_ident()

    def arm(self, guard: Guard, seconds: float) -> None:
        """Let `guard` fire `seconds` from now."""
        now = self.now
        guard.deadline = deadline = now() + seconds
        lane = self.lanes.get(seconds)
        if lane is None:
            lane = self.lanes[seconds] = {}
        lane[guard] = None
        guard.lane = lane
        if deadline < self.due:
            self.due = deadline
            self.wake_at(deadline)

    def disarm(self, guard: Guard) -> None:
        """Forget `guard`; what it recorded stays."""
        lane = guard.lane
        if lane is not None:
            lane.pop(guard, None)
            guard.lane = None

    def tick(self) -> None:
        """Fire what is due and set the timer for the next; called by the loop."""
        now = self.now()
        self.due = nearest = math.inf
        for seconds, lane in list(self.lanes.items()):
            nearest = min(nearest, self._expire(lane, now))
            if not lane:
                self.lanes.pop(seconds, None)
        if nearest < self.due:
            self.due = nearest
            self.wake_at(nearest)

    def _expire(self, lane: dict[Guard, None], now: float) -> float:
        while lane:
            guard = next(iter(lane))
            if guard.deadline > now:
                return guard.deadline
            guard.fire(Cause.DEADLINE)
        return math.inf

    def follow(self, token: CancelToken, guard: Guard) -> None:
        """Let `token` fire `guard`, from whatever thread it is fired."""

        def fire() -> None:
            guard.fire(Cause.TOKEN)

        def posts(*threaded: bool) -> bool:
            return any(threaded) or threading.get_ident() != self.thread

        token.subscribe(guard, lambda threaded: self.post(fire) if posts(threaded) else fire())

    @abstractmethod
    def runs_here(self) -> bool:
        """Tell whether the current code is a task of this event loop."""

    @abstractmethod
    def wake_at(self, deadline: float) -> None:
        """Have the loop call `tick` at `deadline`; replaces what was asked before."""

    @abstractmethod
    def post(self, callback: Callable[[], None]) -> None:
        """Run `callback` in the loop, from any thread; a closed loop ignores it."""

    @abstractmethod
    def after(self, seconds: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Run `callback` in the loop after `seconds`; returns how to call it off."""

    @abstractmethod
    async def shielded(self, awaitable: Awaitable[None]) -> None:
        """Await to the end, whatever is cancelled meanwhile; the caller bounds it in time.

        A cancellation that arrives is not lost: `native` tells of it afterwards.
        """

    @abstractmethod
    def baseline(self, task: Any) -> int:
        """Return how many native cancellations the task has already lived through."""

    @abstractmethod
    def native(self, task: Any, baseline: int) -> bool:
        """Tell whether the task, or a scope around it, has been cancelled from outside."""


class _Recent:
    __slots__ = ("watch",)

    watch: Watch | None

    def __init__(self) -> None:
        self.watch = None

    def forget(self) -> None:
        self.watch = None


RECENT: Final = _Recent()
"""The watch used last: most processes run one loop."""
# A child process may be forked inside a running loop, which it does not run itself.
at_fork(in_child=RECENT.forget)
