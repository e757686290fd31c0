"""The audit in a database: one hash chain for each stream, whoever writes to it.

How records are linked and verified is in `capgate.audit`; here is where they are kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import anyio.to_thread

from capgate.audit import VerifyReport, check_trimming, trimming_event
from capgate.call import current_watch
from capgate.stores.chain import Chain
from capgate.stores.opening import database_of
from capgate.stores.reading import Rows, exported, last_before, verified

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from capgate.audit import AuditEvent
    from capgate.call import Actor, Watch
    from capgate.errors import JSON
    from capgate.stores.database import Database, Db
    from capgate.stores.worker import Job

T = TypeVar("T")


class _Group(NamedTuple):
    """Records that go into the chain in one commit, and the job that does it."""

    records: list[Mapping[str, JSON]]
    job: Job[None]


class SqlAudit:
    """An audit sink that chains every event in a database, safe for several writers at once.

    Events that wait while another is written are written together, in one commit.

    Args:
        database: `sqlite:///FILE` or `postgresql://…`, or a database that other stores use too.
        stream: The name of the chain; chains do not touch one another.

    Raises:
        ConfigurationError: Not a store's URL.
    """

    __slots__ = ("_database", "_open", "chain")

    chain: Chain
    """The chain that it writes."""

    def __init__(self, database: str | Database, *, stream: str = "capgate") -> None:
        """See the class."""
        self._database = database_of(database)
        self.chain = Chain(self._database, stream)
        # The group of each event loop that still takes records: until the thread gets to it.
        self._open: dict[Watch, _Group] = {}

    async def __call__(self, event: AuditEvent) -> None:
        """Append `event` to the chain; when this returns, it is on the disk.

        Raises:
            Exception: Whatever the driver raised: it was not written.
        """
        await self.write_many([event])

    async def write_many(self, events: Sequence[AuditEvent]) -> None:
        """Append events to the chain, all or none; raises as a single one."""
        records: list[Mapping[str, JSON]] = [event.to_dict() for event in events]
        await self._join(records, current_watch()).wait()

    def _join(self, records: list[Mapping[str, JSON]], watch: Watch) -> Job[None]:
        """Put records into the group that is open, or open one."""
        group = self._open.get(watch)
        if group is not None and group.job.unless_taken(lambda: group.records.extend(records)):
            return group.job
        job = self._database.post(lambda db: self._write(db, watch, records))
        self._open[watch] = _Group(records, job)
        return job

    def _write(self, db: Db, watch: Watch, records: list[Mapping[str, JSON]]) -> None:
        # Nobody adds to it any more. If another was opened this moment, nobody adds to that either.
        self._open.pop(watch, None)
        self.chain.take_turn(db)
        self.chain.append(db, records)

    async def aclose(self) -> None:
        """Close the database, and every other store on it."""
        await self._database.aclose()

    async def verify(self) -> VerifyReport:
        """Check the whole chain, record by record, in constant memory; writers go on meanwhile.

        Raises:
            Exception: Whatever the driver raises: the database cannot be read.
        """
        return await self._read(verified)

    async def export(self, path: str | os.PathLike[str]) -> VerifyReport:
        """Write the chain to a new file as lines of JSON, checking it on the way.

        `verify_chain` checks such a file, opened with `"rb"`.

        Args:
            path: Where the file is made, readable by its owner only.

        Returns:
            What the check found; every record is in the file, good or not.

        Raises:
            FileExistsError: There is such a file already.
            OSError: The file cannot be written.
            Exception: Whatever the driver raises: the database cannot be read.
        """
        return await self._read(lambda rows: exported(rows, Path(path)))

    async def trim(self, before: datetime, *, by: Actor) -> int:
        """Remove the records that are older; export them first if they are to be kept.

        The chain stays verifiable: a record says up to where it was cut, and who did it. Where
        time went backwards, nothing behind the first younger record is removed.

        Args:
            before: Aware.
            by: Who removes them.

        Returns:
            How many records were removed.

        Raises:
            TypeError, ValueError: An argument that cannot be.
            ValueError: The chain is broken; nothing was removed.
            Exception: Whatever the driver raises; nothing was removed then.
        """
        check_trimming(before, by)
        last = await self._read(lambda rows: last_before(rows, before))
        if last is None:
            return 0

        def cut(db: Db) -> int:
            self.chain.take_turn(db)
            self.chain.append(db, [trimming_event(last.seq, last.hash, by).to_dict()])
            return self.chain.cut(db, last.seq)

        return await self._database.transact(cut)

    async def _read(self, work: Callable[[Rows], T]) -> T:
        """Run `work` on the chain as it stands, on a connection of its own."""
        await self._database.open()
        return await anyio.to_thread.run_sync(work, Rows(self.chain))
