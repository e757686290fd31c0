"""Declaring a capability: from a handler and its options to a handle, or to everything wrong.

Shared by `Engine.capability` and `Library.capability`. Only the declaration happens here; where
the capability is kept is the business of whoever passes `register`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast, overload

from capgate.call import Context
from capgate.capability.building import Documents, make_contract
from capgate.capability.capability import Capability, Definition
from capgate.capability.declarations import CapabilityOptions
from capgate.capability.fields import check_options, derive_id, read_fields
from capgate.capability.signature import Handler, Signature, bare_type, read_signature
from capgate.errors import ConfigurationError, Issue

P = ParamSpec("P")
Out = TypeVar("Out")

Register = Callable[[Capability[..., Any]], None]

_KNOWN: Final = frozenset(CapabilityOptions.__annotations__)


class CapabilityDecorator(Protocol):
    """What `capability(…)` returns: it turns a handler into a typed handle."""

    @overload
    def __call__(
        self, handler: Callable[Concatenate[Context[Any], P], Awaitable[Out]], /
    ) -> Capability[P, Out]: ...
    @overload
    def __call__(
        self, handler: Callable[Concatenate[Context[Any], P], Out], /
    ) -> Capability[P, Out]: ...
    @overload
    def __call__(self, handler: Callable[P, Awaitable[Out]], /) -> Capability[P, Out]: ...
    @overload
    def __call__(self, handler: Callable[P, Out], /) -> Capability[P, Out]: ...


def capability_decorator(
    register: Register, capability_id: str | None, options: Mapping[str, Any]
) -> CapabilityDecorator:
    """Return a decorator that declares one capability.

    Args:
        register: Keeps the handle; it may refuse it.
        capability_id: The id; None: from the function's name.
        options: The fields of `CapabilityOptions`, as given.

    Raises:
        ConfigurationError: From the decorator: everything that is wrong, at once.
    """

    def declare(handler: Handler) -> Capability[..., Any]:
        handle = Capability[..., Any](define(handler, capability_id, options))
        register(handle)
        return handle

    return cast("CapabilityDecorator", declare)


def define(handler: Handler, capability_id: str | None, options: Mapping[str, Any]) -> Definition:
    """Make the record of one capability.

    Raises:
        ConfigurationError: Everything that is wrong with the handler and the options, at once.
    """
    if not callable(handler):
        raise ConfigurationError("a capability decorates a function")
    signature = read_signature(handler, is_context=_is_context)
    name = derive_id(signature.name) if capability_id is None else capability_id
    issues = [*signature.issues, *_unknown(options), *check_options(name, signature.doc, options)]
    contract = None
    if not signature.issues:  # a signature that cannot be read would only add follow-on errors
        documents = Documents(options.get("input_schema"), options.get("output_schema"))
        contract, found = make_contract(signature, documents)
        issues += found
    if issues or contract is None:
        raise ConfigurationError(_located(issues, name, signature))
    return Definition(
        id=name,
        handler=handler,
        contract=contract,
        context=signature.context,
        is_async=signature.is_async,
        **read_fields(signature.doc, options),
    )


def _is_context(annotation: object) -> bool:
    return bare_type(annotation) is Context


def _unknown(options: Mapping[str, Any]) -> list[Issue]:
    return [
        Issue("OPTION_UNKNOWN", "there is no such option", str(name))
        for name in options
        if name not in _KNOWN
    ]


def _located(issues: list[Issue], name: object, signature: Signature) -> list[Issue]:
    """Say whose problem each one is; the function's own name where the id is no help."""
    owner = name if isinstance(name, str) and name else signature.name
    return [Issue(each.code, each.message, f"{owner}.{each.where}") for each in issues]
