"""The sink that keeps a hash chain in another sink, and cuts off its oldest files.

Not here: how records are linked and verified, and where they are kept. A chain shows what was
changed inside a stream; that its end was cut off shows only against a head kept elsewhere.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import anyio

from capgate.audit.foreign import looks_async
from capgate.audit.lines import Tail, parse_line, read_tail
from capgate.audit.links import Head, head_of, link
from capgate.audit.trimming import check_trimming, recorded_before, trimming_event
from capgate.audit.verify import require_whole, verify_chain
from capgate.errors import JSON, ConfigurationError, Issue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from capgate.audit.event import AuditEvent
    from capgate.call import Actor


class DurableSink(Protocol):
    """What a chain needs of the sink it wraps: both methods plain, or both `async def`."""

    def write(self, record: Mapping[str, JSON], /) -> Awaitable[None] | None:
        """Append one record; when it raises, `tail` tells what really happened."""
        ...

    def tail(self) -> Tail | Awaitable[Tail]:
        """Return the end of what is stored."""
        ...


@runtime_checkable
class SegmentedSink(Protocol):
    """What trimming needs of a sink: plain methods of one that rotates."""

    def segments(self) -> list[Path]:
        """Return the files that are full, oldest first."""
        ...

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the whole stream."""
        ...


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
        """Remove the oldest full files of a sink that rotates, as long as all in them is older.

        The chain stays verifiable: a record says up to where it was cut, and who did it.

        Args:
            before: Aware.
            by: Who removes them.

        Returns:
            How many files were removed.

        Raises:
            TypeError: The sink keeps no full files, or an argument is of the wrong type.
            ValueError: The time has no zone; or the chain is broken, and nothing was removed.
            OSError: A file could not be read or removed.
        """
        check_trimming(before, by)
        sink: object = self._sink
        if self._is_async or not isinstance(sink, SegmentedSink):
            raise TypeError(f"a {type(sink).__name__} keeps no full files")
        removed = 0
        with self._lock:
            require_whole(verify_chain(sink.lines()))
            for path in sink.segments():
                last = read_tail(path).record
                if last is None or not _all_before(path, before):
                    break
                head = head_of(Tail(last))
                # One record a file, written before it goes: a crash leaves no gap that nothing
                # vouches for.
                self(trimming_event(head.seq, head.hash, by))
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


def _all_before(path: Path, before: datetime) -> bool:
    """Tell whether every record in a file says that it is older; torn lines say nothing."""
    with path.open("rb") as file:
        records = map(parse_line, file)
        return all(record is None or recorded_before(record, before) for record in records)


def _require_methods(sink: object) -> None:
    issues = [
        Issue("AUDIT_CHAIN_INVALID", f"a {type(sink).__name__} has no method {name}()", "sink")
        for name in ("write", "tail")
        if not callable(getattr(sink, name, None))
    ]
    if issues:
        raise ConfigurationError(issues)
