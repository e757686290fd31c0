"""Stand-ins for handlers: what is declared about a capability stays, only what runs is another."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_origin

from capgate.call import Context
from capgate.errors import ConfigurationError, Issue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from capgate.capability import Composed, Definition, Handler

_NAMES_CONTEXT: Final = re.compile(r"(\w+\.)*Context(\[.*)?")


def overridden(
    capabilities: Iterable[Composed], overrides: Mapping[str, Handler]
) -> tuple[Composed, ...]:
    """Return the capabilities with other handlers, by effective id.

    Raises:
        ConfigurationError: Every unknown id, with the known ones, and every stand-in that cannot
            be called as the handler is.
    """
    known = {each.definition.id: each for each in capabilities}
    issues = [
        Issue("OVERRIDE_UNKNOWN", f"there is no such capability; known: {sorted(known)}", str(id_))
        for id_ in overrides
        if id_ not in known
    ]
    for id_, stand_in in overrides.items():
        if id_ not in known:
            continue
        composed = known[id_]
        problem = _problem(composed.definition, stand_in)
        if problem is None:
            known[id_] = composed._replace(definition=_with(composed.definition, stand_in))
        else:
            issues.append(Issue("OVERRIDE_INVALID", problem, id_))
    if issues:
        raise ConfigurationError(issues)
    return tuple(known.values())


def _with(definition: Definition, stand_in: Handler) -> Definition:
    handler = stand_in
    if inspect.iscoroutinefunction(type(stand_in).__call__):

        async def handler(**arguments: Any) -> Any:
            return await stand_in(**arguments)

    return replace(
        definition,
        handler=handler,
        context=_context_of(stand_in, definition.context),
        is_async=inspect.iscoroutinefunction(handler),
    )


def _problem(definition: Definition, stand_in: object) -> str | None:
    if not callable(stand_in):
        return f"an override must be callable, got {type(stand_in).__name__}"
    if inspect.isgeneratorfunction(stand_in) or inspect.isasyncgenfunction(stand_in):
        return "an override must not be a generator"
    signature = _signature(stand_in)
    declared = definition.context
    inputs = [name for name in _named(_signature(definition.handler)) if name != declared]
    arguments: dict[str, None] = dict.fromkeys(inputs)
    context = _context_of(stand_in, declared)
    if context is not None:
        arguments[context] = None
    try:
        if signature is not None:
            signature.bind(**arguments)
    except TypeError as error:
        return (
            f"called with {inputs}, the override says: {error}; a parameter for the context is"
            " named as the handler's or annotated Context"
        )
    return None


def _named(signature: inspect.Signature | None) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each.name for each in _parameters(signature) if each.kind in kinds]


def _context_of(stand_in: Handler, declared: str | None) -> str | None:
    """Return the name of the parameter that takes the context, if the stand-in has one."""
    signature = _signature(stand_in)
    if declared in _named(signature):
        return declared
    return next((each.name for each in _parameters(signature) if _is_context(each)), None)


def _parameters(signature: inspect.Signature | None) -> Iterable[inspect.Parameter]:
    return () if signature is None else signature.parameters.values()


def _is_context(parameter: inspect.Parameter) -> bool:
    annotation: Any = parameter.annotation
    if isinstance(annotation, str):
        return _NAMES_CONTEXT.fullmatch(annotation) is not None
    return annotation is Context or get_origin(annotation) is Context


def _signature(function: Handler) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None
