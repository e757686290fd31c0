"""What an engine was built of, as one value, so that tooling can build another one of it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capgate.capability import Composed
    from capgate.engine.settings import Settings


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The constructor's arguments and the capabilities registered since; see `Engine.of`.

    Change it with `dataclasses.replace`. `settings` holds every option that has no field here.
    """

    name: str
    version: str
    deps_type: type[Any] | None
    deps: Any
    surfaces: frozenset[str]
    settings: Settings
    capabilities: tuple[Composed, ...] = ()

    def options(self) -> dict[str, Any]:
        """Return the settings as the keyword arguments that they were."""
        return {each.name: getattr(self.settings, each.name) for each in fields(self.settings)}
