"""The tables of a database, by version: numbered files of statements, each applied once."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from capgate.errors import ConfigurationError, Issue

if TYPE_CHECKING:
    from collections.abc import Mapping


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


def steps_of(folder: str) -> dict[int, str]:
    """Return the steps of one kind of database, by number."""
    return {
        int(file.name.partition("_")[0]): file.read_text(encoding="utf-8")
        for file in files("capgate.stores").joinpath(folder).iterdir()
        if file.name.endswith(".sql")
    }


def missing(version: int, steps: Mapping[int, str]) -> list[tuple[int, str]]:
    """Return the steps that a database still needs, in order.

    Raises:
        ConfigurationError: It is of a newer version of capgate.
    """
    latest = max(steps)
    if version > latest:
        problem = (
            f"the database is at schema {version}, this version of capgate knows up to {latest}: "
            "upgrade capgate, or use another database"
        )
        raise ConfigurationError([Issue("STORE_SCHEMA_NEWER", problem, "url")])
    return [(number, steps[number]) for number in range(version + 1, latest + 1)]
