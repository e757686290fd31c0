"""Idempotency: what a repeat with the same key gets. The room's only door."""

from __future__ import annotations

from capgate.idempotency.memory import MemoryIdempotency
from capgate.idempotency.store import IdempotencyStore, StartKeepingKeys
from capgate.idempotency.values import (
    Claim,
    Claimed,
    Conflict,
    InFlight,
    Replay,
    StoredOutcome,
    Suspended,
    restore_error,
    scoped_key,
    store_error,
)

__all__ = [
    # Stores: the protocol and the memory version
    "IdempotencyStore",
    "StartKeepingKeys",
    "MemoryIdempotency",
    # What `begin` answers
    "Claim",
    "Claimed",
    "Replay",
    "Suspended",
    "InFlight",
    "Conflict",
    # Keys and outcomes as stored
    "scoped_key",
    "StoredOutcome",
    "store_error",
    "restore_error",
]
