"""A library: named capabilities that any engine may include.

It needs no engine and runs nothing. Putting libraries together is in `compose`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from typing_extensions import Unpack

from capgate.capability.declarations import is_text
from capgate.capability.decorator import CapabilityDecorator, capability_decorator
from capgate.errors import ConfigurationError, Issue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from capgate.call import Context
    from capgate.capability.capability import Capability
    from capgate.capability.declarations import CapabilityOptions

P = ParamSpec("P")
Out = TypeVar("Out")


class Library:
    """Capabilities under a name and a version, in the order they were declared.

    Args:
        name: Not blank; stands in provenance and in composition errors.
        version: Not blank.

    Raises:
        ConfigurationError: A field is blank or no text.
    """

    def __init__(self, name: str, version: str) -> None:
        """See the class."""
        issues = [
            Issue("LIBRARY_INVALID", "must be text and not blank", f"library.{field}")
            for field, value in (("name", name), ("version", version))
            if not is_text(value)
        ]
        if issues:
            raise ConfigurationError(issues)
        self._name = name
        self._version = version
        self._capabilities: dict[str, Capability[..., Any]] = {}

    @property
    def name(self) -> str:
        """The library's name."""
        return self._name

    @property
    def version(self) -> str:
        """The library's version."""
        return self._version

    @property
    def capabilities(self) -> Mapping[str, Capability[..., Any]]:
        """What was declared so far, by default id; read-only."""
        return MappingProxyType(self._capabilities)

    @overload
    def capability(
        self, handler: Callable[Concatenate[Context[Any], P], Awaitable[Out]], /
    ) -> Capability[P, Out]: ...
    @overload
    def capability(
        self, handler: Callable[Concatenate[Context[Any], P], Out], /
    ) -> Capability[P, Out]: ...
    @overload
    def capability(self, handler: Callable[P, Awaitable[Out]], /) -> Capability[P, Out]: ...
    @overload
    def capability(self, handler: Callable[P, Out], /) -> Capability[P, Out]: ...
    @overload
    def capability(
        self, id: str | None = None, /, **options: Unpack[CapabilityOptions]
    ) -> CapabilityDecorator: ...
    def capability(self, id: Any = None, /, **options: Any) -> Any:
        """Declare a capability of this library; also without parentheses.

        Raises:
            ConfigurationError: Everything that is wrong with the declaration, at once.
        """
        return declare(self._register, id, options)

    def _register(self, handle: Capability[..., Any]) -> None:
        if handle.id in self._capabilities:
            raise ConfigurationError(
                [Issue("CAPABILITY_ID_TAKEN", f"{self._name} declares this id twice", handle.id)]
            )
        self._capabilities[handle.id] = handle

    def __repr__(self) -> str:
        return f"Library({self._name!r}, {self._version!r})"


def declare(
    register: Callable[[Capability[..., Any]], None], first: Any, options: Mapping[str, Any]
) -> Any:
    """Serve both forms of the decorator: bare, and called with an id and options."""
    if callable(first) and not isinstance(first, str):
        return capability_decorator(register, None, options)(first)
    return capability_decorator(register, first, options)
