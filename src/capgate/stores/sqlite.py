"""SQLite, with the standard library's driver: one file, one thread, a write-ahead log."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, ClassVar, Final

from capgate.stores.database import WAIT_SECONDS, Database, Db
from capgate.stores.schema import steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PAUSE: Final = 0.01
_OWNER_ONLY: Final = 0o600


class Sqlite(Database):
    """One file. Whoever writes locks all of it, so no transaction needs another lock."""

    errors: ClassVar[type[Exception]] = sqlite3.Error
    begin: ClassVar[str] = "BEGIN IMMEDIATE"
    lock_row: ClassVar[str] = ""
    lock_order: ClassVar[str | None] = None
    purge: ClassVar[str] = """
        DELETE FROM capgate_idempotency WHERE expires_at <= ? AND state <> 'in-flight'"""

    def __init__(self, file: Path) -> None:
        """Use `file`, which need not be there yet."""
        super().__init__(1, steps_of("sqlite_schema"))
        self.file: Path = file.absolute()  # wherever the process goes

    def writing(self) -> Db:
        """See `Database.writing`; the file is made, its owner's alone."""
        if not self.file.exists():
            self.file.touch(_OWNER_ONLY)
        connection = sqlite3.connect(self.file, isolation_level=None, timeout=WAIT_SECONDS)
        try:
            connection.text_factory = _text
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def reading(self) -> sqlite3.Connection:
        """See `Database.reading`."""
        uri = f"{self.file.as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, timeout=WAIT_SECONDS)
        connection.text_factory = _text
        return connection

    def version(self, connection: Db) -> int:
        """See `Database.version`."""
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return version

    def lock_schema(self, connection: Db) -> None:
        """Do nothing: whoever writes has locked all of it."""

    def apply(self, connection: Db, number: int, step: str) -> None:
        """See `Database.apply`."""
        for statement in _statements(step):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {number}")

    def stream(self, sql: str, values: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
        """See `Database.stream`."""
        connection = self.reading()
        try:
            yield from connection.execute(sql, values)
        finally:
            connection.close()


def _text(raw: bytes) -> str:
    """Return a text of the file; what is no UTF-8 was altered, and must not hide the rest."""
    return raw.decode("utf-8", "surrogateescape")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; two that switch at once are not made to wait by SQLite."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY  # whatever kind of it
            if not busy or time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
