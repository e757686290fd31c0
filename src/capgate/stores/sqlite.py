"""SQLite, with the standard library's driver: one file, one thread, a write-ahead log."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, ClassVar, Final

from capgate.stores.database import WAIT_SECONDS, Database, Db
from capgate.stores.schema import SchemaStatus, steps_of, upgrade

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PAUSE: Final = 0.01
_OWNER_ONLY: Final = 0o600


class Sqlite(Database):
    """One file. Whoever writes locks all of it, so no transaction needs another lock."""

    errors: ClassVar[type[Exception]] = sqlite3.Error
    begin: ClassVar[str] = "BEGIN IMMEDIATE"
    lock_row: ClassVar[str | None] = None
    lock_order: ClassVar[str | None] = None
    purge: ClassVar[str] = """
        DELETE FROM capgate_idempotency WHERE expires_at <= ? AND state <> 'in-flight'"""

    def __init__(self, file: Path) -> None:
        """Use `file`, which need not be there yet."""
        super().__init__(threads=1)
        self.file = file
        self._steps = steps_of("sqlite_schema")

    def connect(self) -> Db:
        """See `Database.connect`."""
        if not self.file.exists():
            self.file.touch(_OWNER_ONLY)
        connection = sqlite3.connect(self.file, isolation_level=None, timeout=WAIT_SECONDS)
        try:
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            self._upgrade(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def status(self) -> SchemaStatus:
        """See `Database.status`."""
        connection = self._reading()
        try:
            return SchemaStatus(_version(connection), max(self._steps))
        finally:
            connection.close()

    def stream(self, sql: str, values: tuple[object, ...]) -> Iterator[str]:
        """See `Database.stream`."""
        connection = self._reading()
        try:
            for (text,) in connection.execute(sql, values):
                yield text
        finally:
            connection.close()

    def _reading(self) -> sqlite3.Connection:
        uri = f"{self.file.absolute().as_uri()}?mode=ro"
        return sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS)

    def _upgrade(self, connection: sqlite3.Connection) -> None:
        if _version(connection) == max(self._steps):
            return

        def apply(number: int, script: str) -> None:
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")

        connection.execute("BEGIN IMMEDIATE")
        try:
            # Again, now that nobody else can be upgrading.
            upgrade(_version(connection), self._steps, apply)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; two that switch at once are not made to wait by SQLite."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
