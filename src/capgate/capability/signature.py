"""What a handler's signature says: its input parameters, its context, its result.

Only reading, and the refusals that need no more than the signature. Schemas are made elsewhere.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, get_args, get_origin

import pydantic
from typing_extensions import TypeAliasType, is_typeddict

from capgate.errors import Issue

Handler: TypeAlias = Callable[..., Any]

EMPTY: Final = inspect.Parameter.empty

_AWAITABLE: Final = (Awaitable, Coroutine)
_LAZY: Final = (AsyncIterator, Iterator)


class Signature(NamedTuple):
    """One handler, read once.

    Args:
        name: The handler's own name.
        doc: Its docstring, cleaned; empty when it has none.
        parameters: What belongs to the input, annotations resolved, in order.
        rest: The handler takes `**kwargs`.
        context: The name of the parameter that receives the context, if any.
        returns: The annotated result, without the awaitable around it; `EMPTY` when missing.
        is_async: Calling the handler gives an awaitable.
        issues: Everything that is wrong with it.
    """

    name: str
    doc: str
    parameters: tuple[inspect.Parameter, ...]
    rest: bool
    context: str | None
    returns: object
    is_async: bool
    issues: tuple[Issue, ...]


def read_signature(handler: Handler, *, is_context: Callable[[object], bool]) -> Signature:
    """Read a handler.

    Args:
        handler: A function, a bound method, a partial or a callable object.
        is_context: Tells whether a resolved annotation is that of the context.
    """
    plain = _plain_function(handler)
    issues = _kind_issues(plain)
    hints, unresolved = _hints(plain)
    issues += unresolved
    found = _parameters(handler, hints, issues)
    contexts = [each.name for each in found if is_context(each.annotation)]
    if len(contexts) > 1:
        issues.append(_issue("more than one parameter is annotated Context"))
    inputs = [each for each in found if each.name not in contexts]
    issues += _parameter_issues(inputs)
    return Signature(
        name=getattr(plain, "__name__", type(handler).__name__),
        doc=inspect.getdoc(plain if isinstance(plain, FunctionType) else handler) or "",
        parameters=tuple(p for p in inputs if p.kind not in {p.VAR_KEYWORD, p.VAR_POSITIONAL}),
        rest=any(p.kind is p.VAR_KEYWORD for p in inputs),
        context=contexts[0] if contexts else None,
        returns=_awaited(hints.get("return", EMPTY)),
        is_async=inspect.iscoroutinefunction(plain),
        issues=tuple(issues),
    )


def _plain_function(handler: Handler) -> Handler:
    """Return the function that holds the code and the annotations."""
    inner: Handler = handler
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not isinstance(inner, FunctionType | MethodType) and not inspect.isclass(inner):
        inner = vars(type(inner)).get("__call__", inner)  # a callable object
    return inner


def _kind_issues(handler: Handler) -> list[Issue]:
    if inspect.isclass(handler):
        return [_issue("a class is not a handler; decorate a function")]
    if inspect.isasyncgenfunction(handler) or inspect.isgeneratorfunction(handler):
        return [_issue("generators are not capabilities yet; return a list")]
    return []


def _hints(handler: Handler) -> tuple[dict[str, Any], list[Issue]]:
    try:
        return typing.get_type_hints(handler, include_extras=True), []
    except NameError as error:
        return _local_hints(handler, error)
    except Exception as error:
        return {}, [_issue(f"its annotations cannot be read ({type(error).__name__})")]


def _local_hints(handler: Handler, first: NameError) -> tuple[dict[str, Any], list[Issue]]:
    """Resolve names of the function that encloses the handler, from the stack that declares it."""
    function = inspect.unwrap(handler)
    module = getattr(function, "__globals__", {})
    names: dict[str, Any] = {}
    frame = inspect.currentframe()
    # Only frames of the handler's own module, the innermost first: others mean other names.
    while frame is not None:
        if frame.f_globals is module:
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    try:
        return typing.get_type_hints(handler, localns=names, include_extras=True), []
    except Exception:
        missing = f"the name {first.name!r}" if first.name else "a name"
        return {}, [_issue(f"its annotations use {missing}, which cannot be found at run time")]


def _parameters(
    handler: Handler, hints: Mapping[str, Any], issues: list[Issue]
) -> list[inspect.Parameter]:
    try:
        found = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        issues.append(_issue("its signature cannot be read"))
        return []
    return [each.replace(annotation=hints.get(each.name, EMPTY)) for each in found]


def _parameter_issues(parameters: list[inspect.Parameter]) -> list[Issue]:
    issues: list[Issue] = []
    for each in parameters:
        if each.kind is each.POSITIONAL_ONLY:
            issues.append(_issue(f"parameter {each.name!r} must not be positional-only"))
        elif each.kind is each.VAR_POSITIONAL:
            issues.append(_issue(f"*{each.name} cannot be filled from named fields"))
    return issues


def _awaited(annotation: Any) -> Any:
    if get_origin(annotation) in _AWAITABLE:
        return get_args(annotation)[-1]
    return annotation


def is_root(annotation: object) -> bool:
    """Tell whether one parameter so annotated stands for the whole input object."""
    bare: Any = bare_type(annotation)
    if not inspect.isclass(bare):
        return False
    if issubclass(bare, pydantic.BaseModel):
        return not issubclass(bare, pydantic.RootModel)
    return dataclasses.is_dataclass(bare) or is_typeddict(bare)


def bare_type(annotation: object) -> object:
    """Return the class behind `Annotated`, an alias and type arguments."""
    while True:
        if isinstance(annotation, TypeAliasType):
            annotation = annotation.__value__
        elif get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        else:
            return get_origin(annotation) or annotation


def _issue(message: str) -> Issue:
    return Issue("HANDLER_INVALID", message, "handler")
