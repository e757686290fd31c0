"""Progress of a running handler, told to who follows the call. Display is the surfaces' work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple, TypeAlias

from capgate.call.logline import log
from capgate.call.scope import Overrun, call_bounded


class Progress(NamedTuple):
    """How far an execution is."""

    execution_id: str
    done: float
    total: float | None
    message: str | None


Follower: TypeAlias = Callable[[Progress], Awaitable[None]]

_PATIENCE: Final = 0.2
"""Seconds that a follower may hold up the handler."""


class _Following:
    """A follower, and whether it has failed before."""

    __slots__ = ("failed", "follower", "lost")

    def __init__(self, follower: Follower) -> None:
        self.follower: Callable[[Progress], object] = follower
        self.failed = False
        self.lost = False


_following: Final[ContextVar[_Following | None]] = ContextVar("capgate_progress", default=None)


@contextmanager
def follow_progress(follower: Follower) -> Generator[None]:
    """Have `follower` told of the progress of every call made inside the block.

    Following is no part of a call: what the follower raises is logged, and one that takes longer
    than 0.2 seconds is told no more.
    """
    token = _following.set(_Following(follower))
    try:
        yield
    finally:
        _following.reset(token)


async def report_progress(progress: Progress) -> None:
    """Tell the follower, if there is one; raises only a native cancellation."""
    following = _following.get()
    if following is None or following.lost:
        return
    try:
        await call_bounded(following.follower, progress, seconds=_PATIENCE)
    except Exception as error:
        following.lost = type(error) is Overrun
        if not following.failed:
            following.failed = True
            log("progress_failed", error=error)
