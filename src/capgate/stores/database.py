"""A database as the stores use it: whole transactions, each one hop to a thread.

Here: what every kind of database shares. Not here: SQL, and how one kind is opened.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from capgate.stores.schema import SchemaStatus, missing
from capgate.stores.worker import Job, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")
WAIT_SECONDS = 5.0
"""How long a connection, or a lock that others hold, is waited for."""


class Cursor(Protocol):
    """What a statement left."""

    @property
    def rowcount(self) -> int:
        """Rows that were changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, None after the last."""
        ...

    def fetchall(self) -> list[Any]:
        """Return every row that is left."""
        ...


class Db(Protocol):
    """An open connection. Statements are written with `?`, or `?1` where a value stands twice."""

    def execute(self, sql: str, values: tuple[object, ...] = (), /) -> Cursor:
        """Run one statement."""
        ...

    def close(self) -> None:
        """Let go of it; what was not committed is undone."""
        ...


class Database(ABC):
    """One database and the threads that talk to it, each with a connection of its own.

    A connection is opened at first use, and again after an error of the database.

    Args:
        threads: How many transactions can be under way at once.
        steps: The steps of its schema, by number.
    """

    errors: ClassVar[type[Exception]]
    """What the driver raises."""
    begin: ClassVar[str]
    lock_row: ClassVar[str]
    """Ends a SELECT that locks what it reads; '' where a transaction locks everything by itself."""
    lock_order: ClassVar[str | None]
    """Lets one transaction after another give out places in an order, named by a text.

    Locks are taken in one order, so that no two wait for each other: a place in the audit or among
    the approvals, then the row of an approval, then that of an execution or a key.
    """
    purge: ClassVar[str]
    """Deletes idempotency keys that have expired; what never ended stays for `unfinished`."""

    steps: Mapping[int, str]

    def __init__(self, threads: int, steps: Mapping[int, str]) -> None:
        """See the class."""
        self.steps = steps
        self._own = threading.local()
        self._worker = Worker(
            "capgate-store", self._disconnect, threads=threads, run_group=self._transact_all
        )

    def connect(self) -> Db:
        """Open a connection, and bring the tables up to date.

        Raises:
            ConfigurationError: The database is of a newer version of capgate.
            Exception: Whatever the driver raises.
        """
        connection = self.writing()
        try:
            if self.version(connection) != max(self.steps):
                connection.execute(self.begin)
                self.lock_schema(connection)
                # Again, now that nobody else can be upgrading.
                for number, step in missing(self.version(connection), self.steps):
                    self.apply(connection, number, step)
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def status(self) -> SchemaStatus:
        """Return where the database stands, changing nothing."""
        connection = self.reading()
        try:
            return SchemaStatus(self.version(connection), max(self.steps))
        finally:
            connection.close()

    @abstractmethod
    def writing(self) -> Db:
        """Return a new connection that writes."""

    @abstractmethod
    def reading(self) -> Db:
        """Return a new connection that only reads, and makes nothing that is missing."""

    @abstractmethod
    def version(self, connection: Db) -> int:
        """Return the last step applied; 0 for an empty database."""

    @abstractmethod
    def lock_schema(self, connection: Db) -> None:
        """Keep others from upgrading until the transaction ends."""

    @abstractmethod
    def apply(self, connection: Db, number: int, step: str) -> None:
        """Apply one step and note it as the last."""

    @abstractmethod
    def stream(self, sql: str, values: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
        """Yield the rows of a query one by one, on a connection of its own, in constant memory."""

    async def open(self) -> None:
        """Open the database now, and bring its tables up to date; raises as `connect`."""
        await self._worker.run(self._connected)

    async def transact(self, work: Callable[[Db], T]) -> T:
        """Run `work` in a transaction; nothing of it stays if it raises.

        Where there is one thread, what waits at the same time shares a transaction, and so a
        commit; `work` may then be run again, so it changes nothing but the database.

        Raises:
            RuntimeError: The database has been closed.
            Exception: Whatever the driver, or `work`, raised.
        """
        return await self._worker.run(work, grouped=True)

    def post(self, work: Callable[[Db], T]) -> Job[T]:
        """Have `work` run in a transaction, whether or not anybody waits for it.

        Raises:
            RuntimeError: The database has been closed.
        """
        return self._worker.post(work, grouped=True)

    def _transact_all(self, jobs: list[Job[Any]]) -> None:
        """Do jobs in one transaction; one that raises takes nothing with it but its own changes."""
        if len(jobs) > 1:
            self._group_commit(jobs)
        elif jobs[0].take():
            jobs[0].attempt(partial(self._write, jobs[0].work))

    def _group_commit(self, jobs: list[Job[Any]]) -> None:
        taken: list[Job[Any]] = []
        try:
            connection = self._connected()
            connection.execute(self.begin)
        except Exception as error:  # it was waited for once, for all of them
            self._disconnect()
            self._end_all([partial(job.fail, error) for job in jobs if job.take()])
            return
        try:
            ends = [self._within(connection, job) for job in jobs if _taken(job, taken)]
        except self.errors:  # each runs again alone, so that only its own caller is told
            self._disconnect()
            again = (job for job in jobs if job in taken or job.take())
            self._end_all([partial(job.attempt, partial(self._write, job.work)) for job in again])
            return
        try:
            connection.execute("COMMIT")
        except self.errors as error:
            self._disconnect()
            ends = [partial(job.fail, error) for job in taken]
        self._end_all(ends)

    @staticmethod
    def _end_all(ends: list[Callable[[], None]]) -> None:
        for end in ends:
            end()

    def _within(self, connection: Db, job: Job[Any]) -> Callable[[], None]:
        """Do one job inside the transaction that is open; returns what ends it after the commit.

        Raises:
            Exception: Whatever the driver raised.
        """
        # A refusal undoes its own statements and nobody else's.
        connection.execute("SAVEPOINT capgate")
        try:
            end = partial(job.finish, job.work(connection))
        except self.errors:
            raise
        except BaseException as error:  # for its task to raise, once the others are safe
            connection.execute("ROLLBACK TO capgate")
            end = partial(job.fail, error)
        connection.execute("RELEASE capgate")
        return end

    def _write(self, work: Callable[[Db], T]) -> T:
        """Run `work` in a transaction of its own."""
        connection = self._connected()
        try:
            connection.execute(self.begin)
            result = work(connection)
            connection.execute("COMMIT")
        except self.errors:
            # The connection may be what is broken: the next transaction has a new one.
            self._disconnect()
            raise
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        return result

    async def aclose(self) -> None:
        """Finish what was asked and close the connections."""
        await self._worker.aclose()

    def _connected(self) -> Db:
        connection: Db | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self.connect()
        return connection

    def _disconnect(self) -> None:
        connection: Db | None = getattr(self._own, "connection", None)
        self._own.connection = None
        if connection is not None:
            connection.close()


def _taken(job: Job[Any], taken: list[Job[Any]]) -> bool:
    """Take a job whose caller is still there, and keep it with the others."""
    if job.take():
        taken.append(job)
        return True
    return False
