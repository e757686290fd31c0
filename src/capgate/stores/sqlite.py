"""An SQLite database as the stores use it: whole transactions, each one hop to its thread."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, TypeVar

from capgate.stores.schema import connect
from capgate.stores.url import file_of
from capgate.stores.worker import Job, Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = TypeVar("T")


class Sqlite:
    """One database file. It is opened at first use, and again after an error of its connection.

    Args:
        url: `sqlite:///FILE`.

    Raises:
        ConfigurationError: Not such a URL.
    """

    __slots__ = ("_connection", "_worker", "file")

    file: Path

    def __init__(self, url: str) -> None:
        """See the class."""
        self.file = file_of(url)
        self._connection: sqlite3.Connection | None = None
        self._worker = Worker("capgate-sqlite", self._disconnect)

    async def open(self) -> None:
        """Open the file now, and bring its tables up to date.

        Raises:
            ConfigurationError: It is of a newer version of capgate.
            sqlite3.Error: It cannot be opened or written.
        """
        await self._worker.run(self._connected)

    async def transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction that writes; nothing of it stays if it raises.

        Raises:
            sqlite3.Error: The database failed, or was locked by others for too long.
            RuntimeError: It has been closed.
            BaseException: Whatever `work` raised.
        """
        return await self._worker.run(lambda: self.write(work))

    def post(self, work: Callable[[], T]) -> Job[T]:
        """Have `work` run in the database's thread, where it may `write`.

        Raises:
            RuntimeError: The database has been closed.
        """
        return self._worker.post(work)

    async def aclose(self) -> None:
        """Finish what was asked and close the file."""
        await self._worker.aclose()

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in one transaction, in the database's own thread; raises as `transact`."""
        connection = self._connected()
        try:
            connection.execute("BEGIN IMMEDIATE")
            result = work(connection)
            connection.execute("COMMIT")
        except sqlite3.Error:
            # The connection may be what is broken: the next transaction has a new one.
            self._disconnect()
            raise
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        return result

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self.file)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def database_of(given: str | Sqlite) -> Sqlite:
    """Return the database that a store was given, or the one at its URL.

    Raises:
        ConfigurationError: Not a store's URL.
    """
    return given if isinstance(given, Sqlite) else Sqlite(given)
