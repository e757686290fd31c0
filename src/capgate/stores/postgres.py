"""PostgreSQL, with psycopg 3: a few threads, each with a connection of its own."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from capgate.stores.database import WAIT_SECONDS, Cursor, Database, Db
from capgate.stores.schema import steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_THREADS: Final = 4
_LOCK: Final = 0x6361_7067_6174_6501
"""An arbitrary number that stands for capgate's tables among advisory locks."""
_PAGE: Final = 1_000
_PLACE: Final = re.compile(r"\?(\d*)")


class Postgres(Database):
    """One database. Locks are taken row by row, and in turns where an order is given out."""

    errors: ClassVar[type[Exception]] = psycopg.Error
    # Whatever the default is: a statement must see what others committed while it waited.
    begin: ClassVar[str] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
    lock_row: ClassVar[str] = " FOR UPDATE"
    lock_order: ClassVar[str | None] = "SELECT pg_advisory_xact_lock(hashtextextended(?, 0))"
    purge: ClassVar[str] = """
        DELETE FROM capgate_idempotency WHERE key IN (
            SELECT key FROM capgate_idempotency WHERE expires_at <= ? AND state <> 'in-flight'
            LIMIT 100 FOR UPDATE SKIP LOCKED)"""

    def __init__(self, url: str) -> None:
        """Use the database at `url`.

        Raises:
            ValueError: Not a URL that the driver can read.
        """
        super().__init__(_THREADS, steps_of("postgres_schema"))
        try:
            conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            raise ValueError("not a connection URL") from error
        self._url = url

    def writing(self) -> Db:
        """See `Database.writing`."""
        return self._connection()

    def reading(self) -> Db:
        """See `Database.reading`."""
        return self._connection()

    def version(self, connection: Db) -> int:
        """See `Database.version`."""
        if connection.execute("SELECT to_regclass('capgate_schema')").fetchone()[0] is None:
            return 0
        row: tuple[int] | None = connection.execute("SELECT version FROM capgate_schema").fetchone()
        return 0 if row is None else row[0]

    def lock_schema(self, connection: Db) -> None:
        """See `Database.lock_schema`; makes the table in which the version stands."""
        connection.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
        connection.execute("CREATE TABLE IF NOT EXISTS capgate_schema (version BIGINT NOT NULL)")
        connection.execute(
            "INSERT INTO capgate_schema SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM capgate_schema)"
        )

    def apply(self, connection: Db, number: int, step: str) -> None:
        """See `Database.apply`."""
        connection.execute(step)
        connection.execute("UPDATE capgate_schema SET version = ?", (number,))

    def stream(self, sql: str, values: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
        """See `Database.stream`."""
        connection = self._connection()
        try:
            connection.execute("BEGIN READ ONLY")
            yield from connection.stream(sql, values)
        finally:
            connection.close()

    def _connection(self) -> _Connection:
        wait = int(1000 * WAIT_SECONDS)
        ours = f"-c lock_timeout={wait} -c statement_timeout={4 * wait}"
        given = conninfo_to_dict(self._url)
        settings: dict[str, Any] = {
            "application_name": "capgate",
            "connect_timeout": int(WAIT_SECONDS),
            **given,
            # What the application says comes last, and so has the last word.
            "options": f"{ours} {given.get('options') or ''}",
        }
        return _Connection(psycopg.connect(autocommit=True, **settings))


class _Connection:
    """A connection that takes statements as `Db` writes them."""

    __slots__ = ("_connection",)

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self._connection = connection

    def execute(self, sql: str, values: tuple[object, ...] = (), /) -> Cursor:
        # Without values a script of several statements is taken too.
        return self._connection.execute(_translated(sql), _named(values) or None)

    def stream(self, sql: str, values: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
        with self._connection.cursor("capgate") as cursor:
            cursor.itersize = _PAGE
            yield from cursor.execute(_translated(sql), _named(values))

    def close(self) -> None:
        self._connection.close()


@functools.lru_cache(maxsize=256)
def _translated(sql: str) -> Any:
    """Return a statement with psycopg's places for values: by name, so that one can stand twice."""
    place = 0

    def name(found: re.Match[str]) -> str:
        nonlocal place
        place = int(found[1]) if found[1] else place + 1
        return f"%(v{place})s"

    return _PLACE.sub(name, sql)


def _named(values: tuple[object, ...]) -> dict[str, object]:
    return {f"v{place}": value for place, value in enumerate(values, 1)}
