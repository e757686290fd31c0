"""The engine's bounds, in one value."""

from __future__ import annotations

from dataclasses import dataclass, fields

from capgate.call.clock import Duration, to_seconds
from capgate.errors import ConfigurationError, Issue


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that apply to every call of one engine.

    Args:
        timeout: Seconds for one attempt of a handler that sets none of its own.
        policy_timeout: Seconds for one batch of policies, an access rule, an authenticator.
        policy_concurrency: Capabilities whose discovery policies run at the same time.
        discovery_timeout: Seconds for one whole discovery walk.
        approval_expires_in: Seconds an approval stays open when no rule says otherwise.
        audit_timeout: Seconds one sink may take for one event that is awaited.
        cleanup_grace: Seconds an interrupted handler may clean up before it is reported.
        max_depth: Nesting that crosses the JSON boundary.
        max_concurrency: Handlers at the same time; None for no limit.
        max_queue: Callers that may wait for a place, per limiter.

    Raises:
        ConfigurationError: Naming every field that is wrong.
    """

    timeout: Duration = 30.0
    policy_timeout: Duration = 5.0
    policy_concurrency: int = 16
    discovery_timeout: Duration = 30.0
    approval_expires_in: Duration = 900.0
    audit_timeout: Duration = 5.0
    cleanup_grace: Duration = 5.0
    max_depth: int = 64
    max_concurrency: int | None = None
    max_queue: int = 1000
    max_threads: int = 40

    def __post_init__(self) -> None:
        """Bring durations to seconds and refuse what is no bound."""
        issues: list[Issue] = []
        for field in fields(self):
            try:
                checked = _check(field.name, getattr(self, field.name))
            except TypeError as error:
                issues.append(Issue("LIMIT_INVALID", str(error), f"limits.{field.name}"))
            else:
                object.__setattr__(self, field.name, checked)
        if issues:
            raise ConfigurationError(issues)


def _check(name: str, value: object) -> float | int | None:
    if name in {"policy_concurrency", "max_depth", "max_concurrency", "max_queue", "max_threads"}:
        return _count(name, value)
    return to_seconds(value, f"Limits.{name}")


def _count(name: str, value: object) -> int | None:
    if value is None and name == "max_concurrency":
        return None
    least = 0 if name == "max_queue" else 1
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise TypeError(f"Limits.{name} must be a whole number of at least {least}")
    return value
