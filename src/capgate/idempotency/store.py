"""What every store of idempotency keys must do. No store lives here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from datetime import datetime

    from capgate.audit import AuditEvent
    from capgate.call import Duration
    from capgate.idempotency.values import Claim, StoredOutcome


class IdempotencyStore(Protocol):
    """Where the first use of a key is remembered.

    Keys are opaque: `scoped_key` made them. Time is always the engine's `now`; an entry is
    gone once `now >= claimed at + ttl`. Each change is one atomic step, whatever the number of
    tasks, threads and processes. Anything that escapes is an outage.
    """

    async def begin(
        self, key: str, input_hash: str, execution_id: str, now: datetime, ttl: Duration
    ) -> Claim:
        """Claim a key, or say what became of its first use.

        Unknown, expired or released: `Claimed`, and the key is this execution's. Another input
        hash: `Conflict`, whatever the state. Else, by the state: `InFlight`, `Suspended`, or
        `Replay`. Only one of several racing callers is answered `Claimed`. The entry lives for
        `ttl` from now, whatever happens to it.
        """
        ...

    async def suspend(
        self,
        key: str,
        approval_id: str,
        *,
        execution_id: str | None = None,
        replaces: str | None = None,
    ) -> bool:
        """Note that the call in flight waits for an approval.

        With an execution id, only if that execution holds the key. An entry that waits for the
        approval `replaces` already waits for the new one from now on, whoever asks; its holder
        and its expiry stay.

        Returns:
            Whether it was noted: False when the entry is gone, ended, or another's.
        """
        ...

    async def complete(self, key: str, outcome: StoredOutcome) -> bool:
        """Keep how the call ended.

        A call in flight is ended only by the execution that holds the key; a suspended one by
        any, for a resumed call is a new execution.

        Returns:
            Whether it was kept: False when the entry is gone, ended, or another's.
        """
        ...

    async def release(self, key: str, execution_id: str) -> bool:
        """Free a key in flight or suspended, only for the execution that holds it.

        Returns:
            Whether it was freed.
        """
        ...


@runtime_checkable
class StartKeepingKeys(IdempotencyStore, Protocol):
    """A store on one database with the audit, as `Engine(store=…)` looks for it.

    It can keep the event that a handler starts together with a mark on the key: after a crash a
    key that was only claimed is told from one whose handler was entered.
    """

    @property
    def keeps_starts(self) -> bool:
        """Whether it can."""
        ...

    async def start(self, key: str, *, started: AuditEvent, now: datetime) -> bool:
        """Note that the handler is about to be entered, and keep the event: both or neither.

        Args:
            key: Of a call in flight.
            started: The event; its execution must hold the key. The audit's sink on the same
                database is not told of it again.
            now: When.

        Returns:
            Whether it was noted: False when the entry is gone, ended, or another's.
        """
        ...
