"""Progress of a running handler, told to whoever follows the call. Display is the surfaces' work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple, TypeAlias


class Progress(NamedTuple):
    """How far an execution is."""

    execution_id: str
    done: float
    total: float | None
    message: str | None


Follower: TypeAlias = Callable[[Progress], Awaitable[None]]

_follower: Final[ContextVar[Follower | None]] = ContextVar("capgate_progress", default=None)


@contextmanager
def follow_progress(follower: Follower) -> Iterator[None]:
    """Have `follower` told of the progress of every call made inside the block."""
    token = _follower.set(follower)
    try:
        yield
    finally:
        _follower.reset(token)


async def report_progress(progress: Progress) -> None:
    """Tell the follower, if there is one."""
    follower = _follower.get()
    if follower is not None:
        await follower(progress)
