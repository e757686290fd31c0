"""Where a database is, as a URL says it."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from capgate.errors import ConfigurationError, Issue

_FORM: Final = "sqlite:///FILE, or sqlite:////ABSOLUTE/FILE"


def file_of(url: object) -> Path:
    """Return the file of an SQLite URL.

    Raises:
        ConfigurationError: Not such a URL; it says what is wrong and never quotes the URL, which
            may hold a password.
    """
    if not isinstance(url, str):
        raise _refused(f"a store's URL must be a str, got {type(url).__name__}")
    try:
        parts = urlsplit(url)
        name = unquote(parts.path.removeprefix("/"), errors="strict")
    except ValueError as error:
        raise _refused(f"a store's URL must look like {_FORM}") from error
    if parts.scheme in {"postgresql", "postgres"}:
        raise _refused("PostgreSQL is not supported yet: use sqlite:///FILE")
    if parts.scheme != "sqlite" or parts.netloc or parts.query or parts.fragment:
        raise _refused(f"a store's URL must look like {_FORM}")
    if not name or name == ":memory:" or "\0" in name:
        raise _refused("a store needs a file: what is in memory only is the default without one")
    return Path(name)


def _refused(problem: str) -> ConfigurationError:
    return ConfigurationError([Issue("STORE_URL_INVALID", problem, "url")])
