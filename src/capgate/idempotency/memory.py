"""Idempotency keys in this process's memory: gone when it ends."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from threading import Lock
from typing import ClassVar, TypeAlias

from capgate.call import Duration, to_seconds
from capgate.idempotency.values import (
    Claim,
    Claimed,
    Conflict,
    InFlight,
    Replay,
    StoredOutcome,
    Suspended,
)

_State: TypeAlias = InFlight | Suspended | Replay


@dataclass(slots=True, eq=False)
class _Entry:
    input_hash: str
    execution_id: str
    expires_at: datetime
    state: _State = field(default_factory=InFlight)


class MemoryIdempotency:
    """An `IdempotencyStore` in memory, safe for concurrent tasks and threads."""

    durable: ClassVar[bool] = False

    __slots__ = ("_due", "_entries", "_lock", "_serial")

    def __init__(self) -> None:
        """Start empty."""
        self._lock = Lock()
        self._entries: dict[str, _Entry] = {}
        # Entries leave in the order they expire; the serial keeps equal times apart.
        self._due: list[tuple[datetime, int, str, _Entry]] = []
        self._serial = count()

    async def begin(
        self, key: str, input_hash: str, execution_id: str, now: datetime, ttl: Duration
    ) -> Claim:
        """See `IdempotencyStore.begin`."""
        expires_at = now + timedelta(seconds=to_seconds(ttl, "ttl"))
        with self._lock:
            self._forget_expired(now)
            known = self._entries.get(key)
            if known is None:
                entry = _Entry(input_hash, execution_id, expires_at)
                self._entries[key] = entry
                heapq.heappush(self._due, (expires_at, next(self._serial), key, entry))
                return Claimed()
            if known.input_hash != input_hash:
                return Conflict()
            return _detached(known.state)

    async def suspend(
        self,
        key: str,
        approval_id: str,
        *,
        execution_id: str | None = None,
        replaces: str | None = None,
    ) -> bool:
        """See `IdempotencyStore.suspend`."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or not _may_wait(entry, execution_id, replaces):
                return False
            entry.state = Suspended(approval_id, entry.execution_id)
            return True

    async def complete(self, key: str, outcome: StoredOutcome) -> bool:
        """See `IdempotencyStore.complete`."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or isinstance(entry.state, Replay):
                return False
            resumed = isinstance(entry.state, Suspended)
            if not resumed and entry.execution_id != outcome.execution_id:
                return False
            entry.state = _detached(Replay(outcome))
            return True

    async def release(self, key: str, execution_id: str) -> bool:
        """See `IdempotencyStore.release`."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or isinstance(entry.state, Replay):
                return False
            if entry.execution_id != execution_id:
                return False
            del self._entries[key]
            return True

    def _forget_expired(self, now: datetime) -> None:
        while self._due and self._due[0][0] <= now:
            _, _, key, entry = heapq.heappop(self._due)
            # The key may have been released and claimed anew: then this is not its entry.
            if self._entries.get(key) is entry:
                del self._entries[key]


def _may_wait(entry: _Entry, execution_id: str | None, replaces: str | None) -> bool:
    if isinstance(entry.state, Suspended):
        return entry.state.approval_id == replaces
    return isinstance(entry.state, InFlight) and execution_id in {None, entry.execution_id}


def _detached(state: _State) -> _State:
    # An outcome's JSON is copied whenever one is built: nobody shares the stored one.
    return Replay(replace(state.outcome)) if isinstance(state, Replay) else state
