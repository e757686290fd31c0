"""What a sink is, and the configuration that names the sinks of an engine.

Here: the alias, the options and their check. Not here: delivery, and any sink.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from capgate.audit.event import AuditEvent
from capgate.errors import ConfigurationError, Issue

AuditSink: TypeAlias = Callable[[AuditEvent], Awaitable[None] | None]
"""Any callable or async callable of an event; it returns nothing and must not block.

One with an async method `write_many(events)` is given what waits for it in an entered engine as
one list: all of it is taken, or it raises and none is.
"""


@dataclass(frozen=True, slots=True, init=False)
class AuditConfig:
    """The sinks of an engine and how much depends on them.

    Args:
        sinks: One sink or several; that of an engine's store comes by itself.
        strict: No handler starts before every sink took `capability.started`.
        verbose: Discovery events list the ids, not only their digest.
        hash_inputs: Every event after validation carries the input hash.

    Raises:
        ConfigurationError: With every issue found: a sink that cannot be called, a class in place
            of an instance, an option that is not a bool. An engine refuses strict with no sink.
    """

    sinks: tuple[AuditSink, ...]
    strict: bool
    verbose: bool
    hash_inputs: bool

    def __init__(
        self,
        sinks: AuditSink | Iterable[AuditSink] = (),
        *,
        strict: bool = False,
        verbose: bool = False,
        hash_inputs: bool = False,
    ) -> None:
        options = {"strict": strict, "verbose": verbose, "hash_inputs": hash_inputs}
        found, issues = _sinks(sinks)
        issues += _option_issues(options)
        if issues:
            raise ConfigurationError(issues)
        object.__setattr__(self, "sinks", found)
        for name, value in options.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, audit: AuditSink | Iterable[AuditSink] | AuditConfig | None) -> AuditConfig:
        """Return what an engine's `audit=` means: a configuration, one sink, several, or none."""
        if isinstance(audit, AuditConfig):
            return audit
        return cls(() if audit is None else audit)


def _sinks(given: object) -> tuple[tuple[AuditSink, ...], list[Issue]]:
    if callable(given):
        candidates: list[object] = [given]
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        candidates = list(cast("Iterable[object]", given))
    else:
        return (), [
            Issue("AUDIT_SINK_INVALID", f"{_kind(given)} is neither a sink nor a list", "sinks")
        ]
    issues = [
        Issue("AUDIT_SINK_INVALID", problem, f"sinks[{index}]")
        for index, candidate in enumerate(candidates)
        if (problem := _problem(candidate))
    ]
    return cast("tuple[AuditSink, ...]", tuple(candidates)), issues


def _problem(candidate: object) -> str | None:
    if isinstance(candidate, type):
        return f"{candidate.__name__} is a class: pass an instance"
    return None if callable(candidate) else f"{_kind(candidate)} cannot be called"


def _option_issues(options: Mapping[str, object]) -> list[Issue]:
    return [
        Issue("AUDIT_OPTION_INVALID", f"{name} must be a bool, not {_kind(value)}", name)
        for name, value in options.items()
        if type(value) is not bool
    ]


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"
