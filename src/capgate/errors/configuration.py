"""Construction-time errors: mistakes in a program, reported all at once.

Never a `CapabilityError`, and never raised by a call. Issues hold names and provenance, no
values, schemas or handlers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeGuard, cast

from capgate.errors.foreign import contained

if TYPE_CHECKING:
    from collections.abc import Iterable

COMPOSITION_INVALID: Final = "CAPABILITY_COMPOSITION_INVALID"


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong in a configuration.

    Args:
        code: a stable name in UPPER_SNAKE.
        message: what is wrong, in plain English.
        where: what it is about: a capability id, an option, an import.
    """

    code: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


@dataclass(frozen=True, slots=True)
class Declaration:
    """Where a declared capability id comes from.

    Args:
        kind: declared on the engine itself, imported alone, or included with a library.
        default_id: the id it was declared with.
        source: the name of the library or other source; empty for a local one.
        version: the version of that source.
    """

    kind: Literal["local", "import", "library"]
    default_id: str
    source: str = ""
    version: str = ""

    def __str__(self) -> str:
        origin = " ".join(part for part in (self.kind, self.source, self.version) if part)
        return f"{self.default_id} ({origin})"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdCollision(Issue):
    """Several declarations claim one effective id; they are listed in composition order."""

    code: str = field(default="CAPABILITY_ID_COLLISION", init=False)
    message: str = field(default="this id is declared more than once", init=False)
    where: str = field(default="", init=False)
    effective_id: str
    declarations: tuple[Declaration, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", self.effective_id)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}: {', '.join(map(str, self.declarations))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportInvalid(Issue):
    """Something was imported that is not an exported capability or a library."""

    code: str = field(default="CAPABILITY_IMPORT_INVALID", init=False)
    message: str = field(default="this cannot be imported as a capability", init=False)
    where: str = field(default="", init=False)
    kind: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", self.kind)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportIdNotFound(Issue):
    """`select` or `remap` names an id that the library does not declare."""

    code: str = field(default="CAPABILITY_IMPORT_ID_NOT_FOUND", init=False)
    message: str = field(default="the library declares no such id", init=False)
    where: str = field(default="", init=False)
    library: str
    default_id: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", f"{self.library}/{self.default_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemapNotSelected(Issue):
    """`remap` renames an id that `select` leaves out."""

    code: str = field(default="CAPABILITY_REMAP_NOT_SELECTED", init=False)
    message: str = field(default="this id is renamed but not selected", init=False)
    where: str = field(default="", init=False)
    library: str
    default_id: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "where", f"{self.library}/{self.default_id}")


class ConfigurationError(TypeError):
    """Something is wrong with how an engine, a library or a pipeline was put together.

    Args:
        message_or_issues: one message, or every issue found.

    Raises:
        TypeError: neither a message nor at least one `Issue`.
    """

    def __init__(self, message_or_issues: str | Iterable[Issue]) -> None:
        self._issues = _collect(message_or_issues)
        super().__init__(self._issues)

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Everything that is wrong, at once."""
        return self._issues

    def __str__(self) -> str:
        if len(self._issues) == 1:
            return str(self._issues[0])
        return "\n- ".join([f"{len(self._issues)} problems:", *map(str, self._issues)])


class CompositionError(ConfigurationError):
    """The declared and included capabilities do not fit together.

    Its issues stand in a fixed order: collisions by id, then the others as they were found.
    """

    code: Final = COMPOSITION_INVALID

    def __init__(self, message_or_issues: str | Iterable[Issue]) -> None:
        super().__init__(sorted(_collect(message_or_issues), key=_collisions_first))


def is_composition_error(value: object) -> TypeGuard[CompositionError]:
    """Recognise a composition error by its shape, also one of another copy of capgate.

    It never raises: a value that cannot be read is not one.
    """
    return contained(lambda: _has_shape(value)) is True


def _has_shape(value: object) -> bool:
    code: object = getattr(value, "code", None)
    issues: object = getattr(value, "issues", None)
    is_code = isinstance(code, str) and str.__eq__(code, COMPOSITION_INVALID)
    return is_code and issubclass(type(issues), list | tuple)


def _collect(found: str | Iterable[object]) -> tuple[Issue, ...]:
    if isinstance(found, str):
        return (Issue("CONFIGURATION_INVALID", found),)
    issues = tuple(found)
    if not issues or not all(issubclass(type(issue), Issue) for issue in issues):
        raise TypeError("a ConfigurationError needs a message, or at least one Issue")
    return cast("tuple[Issue, ...]", issues)


def _collisions_first(issue: Issue) -> tuple[int, str]:
    return (0, issue.effective_id) if isinstance(issue, IdCollision) else (1, "")
