"""From a URL to a database; PostgreSQL's driver is optional and loaded only when asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from capgate.errors import ConfigurationError, Issue
from capgate.stores.database import Database
from capgate.stores.sqlite import Sqlite

if TYPE_CHECKING:
    from capgate.stores.schema import SchemaStatus

_FORMS: Final = "sqlite:///FILE, sqlite:////ABSOLUTE/FILE or postgresql://USER@HOST/NAME"


def database_of(given: object) -> Database:
    """Return the database that a store was given, or the one at its URL.

    Raises:
        ConfigurationError: Not a store's URL, or its driver is missing. It says what is wrong and
            never quotes the URL, which may hold a password.
    """
    if isinstance(given, Database):
        return given
    if not isinstance(given, str):
        raise _refused(f"a store's URL must be a str, got {type(given).__name__}")
    try:
        parts = urlsplit(given)
        name = unquote(parts.path.removeprefix("/"), errors="strict")
    except ValueError as error:
        raise _refused(f"a store's URL must look like {_FORMS}") from error
    if parts.scheme in {"postgresql", "postgres"}:
        return _postgres(given)
    if parts.scheme != "sqlite" or parts.netloc or parts.query or parts.fragment:
        raise _refused(f"a store's URL must look like {_FORMS}")
    if not name or name == ":memory:" or "\0" in name:
        raise _refused("a store needs a file: what is in memory only is the default without one")
    return Sqlite(Path(name))


def _postgres(url: str) -> Database:
    try:
        from capgate.stores.postgres import Postgres  # noqa: PLC0415  an optional driver
    except ImportError as error:
        raise _refused("PostgreSQL needs its driver: install capgate[postgres]") from error
    try:
        return Postgres(url)
    except ValueError as error:
        raise _refused(f"a store's URL must look like {_FORMS}") from error


def _refused(problem: str) -> ConfigurationError:
    return ConfigurationError([Issue("STORE_URL_INVALID", problem, "url")])


def migrate(url: str) -> SchemaStatus:
    """Bring a database up to date, making a file that is missing; opening a store does the same.

    Raises:
        ConfigurationError: Not a store's URL, or the database is of a newer version of capgate.
        Exception: Whatever the driver raises: the database cannot be reached or written.
    """
    database = database_of(url)
    database.connect().close()
    return database.status()


def status(url: str) -> SchemaStatus:
    """Return where a database stands, changing nothing.

    Raises:
        ConfigurationError: Not a store's URL.
        Exception: Whatever the driver raises: there is no database there, or it cannot be read.
    """
    return database_of(url).status()
