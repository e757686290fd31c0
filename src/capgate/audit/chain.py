"""The hash chain: each record names the hash of the one before, so that tampering shows.

Here: linking records, and cutting off the oldest. Not here: where records are kept. A chain shows
what was changed inside a stream; that its end was cut off shows only against a head kept elsewhere.
"""

from __future__ import annotations

import threading
from collections import deque
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import anyio

from capgate.audit.foreign import looks_async
from capgate.audit.lines import Tail, read_tail
from capgate.audit.trimming import check_trimming, is_older, trimmed
from capgate.capability import input_hash
from capgate.errors import JSON, ConfigurationError, Issue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from capgate.audit.event import AuditEvent
    from capgate.call import Actor

GENESIS = "0" * 64


class DurableSink(Protocol):
    """What a chain needs of the sink it wraps: both methods plain, or both `async def`."""

    def write(self, record: Mapping[str, JSON], /) -> Awaitable[None] | None:
        """Append one record; when it raises, `tail` tells what really happened."""
        ...

    def tail(self) -> Tail | Awaitable[Tail]:
        """Return the end of what is stored."""
        ...


class Head(NamedTuple):
    """Where a chain stands: the last record's number and hash, and what is torn after it."""

    seq: int = 0
    hash: str = GENESIS
    torn: str | None = None


class ChainedAudit:
    """Wraps a durable sink so that each record carries `seq`, `prev` and `hash`.

    `hash` is SHA-256, in hex, over the RFC 8785 bytes of the record without it. A stream that
    exists is continued; one process at a time writes a stream. After an interrupted write, the
    next record also carries `torn`, the hash of the lines left behind.

    Args:
        sink: Offers `write(record)` and `tail()`, such as `JsonlAudit(path)`.

    Raises:
        ConfigurationError: The sink lacks a method, or its last record is not part of a chain.

    Source: RFC 8785 (JSON Canonicalization Scheme).
    """

    def __init__(self, sink: DurableSink) -> None:
        _require_methods(sink)
        self._sink = sink
        self._is_async = looks_async(sink.write)
        # Reentrant: the collector may close an abandoned call, and audit it, during a write.
        self._lock = threading.RLock()
        self._turn = anyio.Lock()
        self._waiting: deque[Mapping[str, JSON]] = deque()
        self._busy = False
        # None: unknown, read it from the sink. So after any failed write.
        self._head = None if self._is_async else head_of(cast("Tail", sink.tail()))

    def __call__(self, event: AuditEvent) -> Awaitable[None] | None:
        """Link `event` to the chain and write it."""
        record = event.to_dict()
        if self._is_async:
            return self._write_later(record)
        with self._lock:
            self._waiting.append(record)
            if not self._busy:
                self._write_waiting()
        return None

    def trim(self, before: datetime, *, by: Actor) -> int:
        """Remove the full files of a sink that rotates whose records are all older.

        The chain stays verifiable: a record says up to where it was cut, and who did it.

        Args:
            before: Aware.
            by: Who removes them.

        Returns:
            How many files were removed.

        Raises:
            TypeError: The sink keeps no full files, or an argument is of the wrong type.
            ValueError: The time has no zone.
            OSError: A file could not be read or removed.
        """
        check_trimming(before, by)
        segments = getattr(self._sink, "segments", None)
        if segments is None:
            raise TypeError(f"a {type(self._sink).__name__} keeps no full files")
        removed = 0
        with self._lock:
            for path in cast("list[Path]", segments()):
                last = read_tail(path).record
                if last is None or not is_older(last, before):
                    break
                head = head_of(Tail(last))
                self(trimmed(head.seq, head.hash, by))
                path.unlink()
                removed += 1
        return removed

    def _write_waiting(self) -> None:
        self._busy = True
        try:
            while self._waiting:
                record = self._waiting.popleft()
                head = self._head or head_of(cast("Tail", self._sink.tail()))
                self._head = None
                linked = link(head, record)
                self._sink.write(linked)
                self._head = Head(linked["seq"], linked["hash"])
        finally:
            self._busy = False

    async def _write_later(self, record: Mapping[str, JSON]) -> None:
        async with self._turn:
            head = self._head or head_of(await cast("Awaitable[Tail]", self._sink.tail()))
            self._head = None
            linked = link(head, record)
            await cast("Awaitable[None]", self._sink.write(linked))
            self._head = Head(linked["seq"], linked["hash"])


def link(head: Head, record: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return `record` as the one that follows `head`."""
    linked = {**record, "seq": head.seq + 1, "prev": head.hash}
    if head.torn is not None:
        linked["torn"] = head.torn
    linked["hash"] = digest(linked)
    return linked


def digest(record: Mapping[str, JSON]) -> str:
    """Return the hash of a record, over everything in it but its own `hash`.

    Raises:
        ValueError: It has no canonical form.
    """
    return input_hash({k: v for k, v in record.items() if k != "hash"})


def head_of(tail: Tail) -> Head:
    """Return where a stored chain stands.

    Raises:
        ConfigurationError: The last record is not part of a chain.
    """
    torn = torn_digest(tail.torn) if tail.torn else None
    if tail.record is None:
        return Head(torn=torn)
    seq, own = tail.record.get("seq"), tail.record.get("hash")
    if type(seq) is not int or type(own) is not str:
        problem = "the last record is not part of a chain: start a new stream"
        raise ConfigurationError([Issue("AUDIT_CHAIN_INVALID", problem, "sink")])
    return Head(seq, own, torn)


def torn_digest(lines: Iterable[bytes]) -> str:
    """Return the hash of lines that are no records, each ended by a newline."""
    return sha256(b"".join(line + b"\n" for line in lines)).hexdigest()


def _require_methods(sink: object) -> None:
    issues = [
        Issue("AUDIT_CHAIN_INVALID", f"a {type(sink).__name__} has no method {name}()", "sink")
        for name in ("write", "tail")
        if not callable(getattr(sink, name, None))
    ]
    if issues:
        raise ConfigurationError(issues)
