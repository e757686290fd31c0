"""The tables of a database, by version: numbered files, each applied once, under a lock."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from capgate.errors import ConfigurationError, Issue
from capgate.stores.url import file_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BUSY_SECONDS: Final = 5.0
_PAUSE: Final = 0.01
_OWNER_ONLY: Final = 0o600


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Where a database stands.

    Args:
        version: The last step applied; 0 for an empty database.
        latest: The last step this version of capgate knows.
    """

    version: int
    latest: int

    @property
    def current(self) -> bool:
        """Whether there is nothing to apply."""
        return self.version == self.latest


def migrate(url: str) -> SchemaStatus:
    """Bring a database up to date, making it if it is missing; opening a store does the same.

    Raises:
        ConfigurationError: Not a store's URL, or the database is of a newer version of capgate.
        sqlite3.Error: The database cannot be opened or written.
    """
    connection = connect(file_of(url))
    try:
        return _status(connection)
    finally:
        connection.close()


def status(url: str) -> SchemaStatus:
    """Return where a database stands, changing nothing.

    Raises:
        ConfigurationError: Not a store's URL.
        sqlite3.Error: There is no database there, or it cannot be read.
    """
    uri = f"{file_of(url).absolute().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)
    try:
        return _status(connection)
    finally:
        connection.close()


def connect(file: Path) -> sqlite3.Connection:
    """Open a database for writing and bring its tables up to date.

    Raises:
        ConfigurationError: It is of a newer version of capgate.
        sqlite3.Error: It cannot be opened or written.
    """
    if not file.exists():
        file.touch(_OWNER_ONLY)
    connection = sqlite3.connect(file, isolation_level=None, timeout=BUSY_SECONDS)
    try:
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        _upgrade(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to the write-ahead log; two that switch at once are not made to wait by SQLite."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() >= end:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _upgrade(connection: sqlite3.Connection) -> None:
    steps = dict(_steps())
    found = _status(connection)
    if found.current:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Again, now that nobody else can be upgrading.
        version = _status(connection).version
        if version > max(steps):
            raise ConfigurationError([Issue("STORE_SCHEMA_NEWER", _newer(version, max(steps)))])
        for number in range(version + 1, max(steps) + 1):
            for statement in _statements(steps[number]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _newer(version: int, latest: int) -> str:
    return (
        f"the database is at schema {version}, this version of capgate knows up to {latest}: "
        "upgrade capgate, or use another database"
    )


def _status(connection: sqlite3.Connection) -> SchemaStatus:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return SchemaStatus(version, max(number for number, _ in _steps()))


def _steps() -> Iterator[tuple[int, str]]:
    for file in files("capgate.stores").joinpath("sqlite_schema").iterdir():
        if file.name.endswith(".sql"):
            yield int(file.name.partition("_")[0]), file.read_text(encoding="utf-8")


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
