"""Contact with foreign objects: sinks, and what they return.

Here: looking at them, whatever they do when looked at. Not here: delivery, and what fails.
"""

from __future__ import annotations

import inspect
from functools import partial
from types import CoroutineType, FunctionType, GeneratorType, MethodType
from typing import TYPE_CHECKING, cast

from capgate.errors import contained

if TYPE_CHECKING:
    from collections.abc import Callable

    from capgate.audit.event import AuditEvent
    from capgate.audit.sink import AuditSink


def looks_async(sink: object) -> bool:
    """Tell whether a callable is visibly async; what it returns has the last word."""
    return bool(contained(lambda: _looks_async(sink)))


def is_awaitable(returned: object) -> bool:
    """Tell whether an object can be awaited; one that breaks when looked at cannot."""
    return bool(contained(lambda: inspect.isawaitable(returned)))


def discard(returned: object) -> None:
    """Close a coroutine or generator that will never run; anything else is left alone."""
    # By the type: an object may lie about its class, or break when asked.
    if issubclass(type(returned), CoroutineType | GeneratorType):
        contained(cast("CoroutineType[object, object, object]", returned).close)


def name_of(sink: object) -> str:
    """Name a sink by its function or its class, never by its `repr`."""
    name = contained(lambda: getattr(sink, "__qualname__", None))
    return name if type(name) is str else type(sink).__qualname__


def many_of(sink: AuditSink) -> Callable[[list[AuditEvent]], object] | None:
    """Return the method of a sink that takes several events at once, None if it has none."""
    many = contained(lambda: getattr(sink, "write_many", None))
    return many if callable(many) else None


def bound(sink: AuditSink) -> AuditSink:
    """Return a sink's `__call__` as a bound method, which Python enters faster; else the sink."""
    call = contained(lambda: type(sink).__call__)
    return MethodType(call, sink) if type(call) is FunctionType else sink


def _looks_async(sink: object) -> bool:
    while isinstance(sink, partial):
        sink = cast("partial[object]", sink).func
    call: object = sink.__call__ if callable(sink) else None
    return inspect.iscoroutinefunction(sink) or inspect.iscoroutinefunction(call)
