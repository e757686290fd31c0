"""What an author may say about a capability besides its handler.

Values only, checked when they are made. Enforcing them is the work of other rooms.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypedDict, get_args

from typing_extensions import TypeVar

from capgate.call import Actor, Argument, Duration, to_seconds
from capgate.errors import JSON, CapabilityError, ConfigurationError, DomainError, Issue

if TYPE_CHECKING:
    from capgate.capability.policy import Policy

SideEffect: TypeAlias = Literal["none", "read", "write", "destructive", "external"]
Risk: TypeAlias = Literal["low", "medium", "high", "critical"]

SIDE_EFFECTS: Final = frozenset(get_args(SideEffect))
RISKS: Final = frozenset(get_args(Risk))
SURFACES: Final = frozenset({"direct", "tools", "mcp", "http", "cli", "workflow", "test"})
READ_ONLY: Final = frozenset({"none", "read"})

Out = TypeVar("Out", default=Any)


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """What an access rule judges.

    Args:
        capability_id: The id by which the engine knows the capability.
        surface: The surface the call came in by.
        actor: Who calls; for an approver rule, who decides.
        deps: The application's dependencies for this call.
        input: A copy of the validated input.
        arguments: Its top-level fields, read-only.
        record: The approval to be decided; only for approver rules.
    """

    capability_id: str
    surface: str
    actor: Actor
    deps: Any = field(repr=False)
    input: Argument = field(repr=False)
    arguments: Mapping[str, Argument] = field(repr=False)
    record: Any = field(default=None, repr=False)


AccessRule: TypeAlias = Callable[[AccessRequest], bool | Awaitable[bool]]
Access: TypeAlias = Literal["public", "authenticated"] | AccessRule


@dataclass(frozen=True, slots=True)
class PermissionRule:
    """Permits an actor who has every one of these permissions."""

    permissions: frozenset[str]

    def __call__(self, request: AccessRequest) -> bool:
        """Judge the actor; nothing else of the request is read."""
        return self.permissions <= request.actor.permissions


def requires(*permissions: str) -> PermissionRule:
    """Permit only actors who have all these permissions.

    Raises:
        ConfigurationError: There is none, or one is blank or no str.
    """
    if not permissions or not all(map(is_text, permissions)):
        raise ConfigurationError("requires(…) takes one or more permission names")
    return PermissionRule(frozenset(permissions))


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a handler is tried again, and after how long.

    Args:
        attempts: Tries in all, at least 2.
        backoff: Seconds before the second try; doubled for each further one, with full jitter.
        max_backoff: The most seconds between two tries.
        when: Says False for an error that another try cannot help; not async.

    Raises:
        ConfigurationError: Naming every field that is wrong.
    """

    attempts: int
    _: KW_ONLY
    backoff: Duration = 0.25
    max_backoff: Duration = 10.0
    when: Callable[[CapabilityError], bool] | None = None

    def __post_init__(self) -> None:
        """Bring durations to seconds and refuse what makes no sense."""
        check = Checks("retry")
        check.count("attempts", self.attempts, least=2)
        check.plain_function("when", self.when)
        object.__setattr__(self, "backoff", check.seconds("backoff", self.backoff))
        object.__setattr__(self, "max_backoff", check.seconds("max_backoff", self.max_backoff))
        check.done()


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Every call of the capability needs an approval.

    Args:
        type: What kind of sign-off it is, for those who decide.
        reason: Shown to the caller and to those who decide.
        expires_in: Seconds the request stays open; None: the engine's default.
        approvers: An access rule over the approver and the record; None: any actor of kind `user`.
        allow_self: The requester may decide too.
        quorum: How many different approvers must agree.

    Raises:
        ConfigurationError: Naming every field that is wrong.
    """

    type: str | None = None
    _: KW_ONLY
    reason: str | None = None
    expires_in: Duration | None = None
    approvers: AccessRule | None = None
    allow_self: bool = False
    quorum: int = 1

    def __post_init__(self) -> None:
        """Bring durations to seconds and refuse what makes no sense."""
        check = Checks("approval")
        check.text("type", self.type)
        check.text("reason", self.reason)
        if self.expires_in is not None:
            object.__setattr__(self, "expires_in", check.seconds("expires_in", self.expires_in))
        check.callable("approvers", self.approvers)
        check.flag("allow_self", self.allow_self)
        check.count("quorum", self.quorum, least=1)
        check.done()


@dataclass(frozen=True, slots=True)
class Redact(Generic[Out]):
    """What is taken out of a value before somebody sees it.

    Args:
        output: Makes the caller's output from the true one; what it returns is validated again.
        approval_input: Makes what approvers are shown from the true input.

    Raises:
        ConfigurationError: One of them is not callable.
    """

    output: Callable[[Out], Out | Awaitable[Out]] | None = None
    approval_input: Callable[[JSON], JSON] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be called."""
        check = Checks("redact")
        check.callable("output", self.output)
        check.callable("approval_input", self.approval_input)
        check.done()


class CapabilityOptions(TypedDict, total=False):
    """The fields of a declaration; see the page on capabilities for each one's rule."""

    title: str
    description: str
    expose: Collection[str]
    side_effect: SideEffect
    risk: Risk
    access: Access
    timeout: Duration
    retry: Retry
    idempotent: bool
    max_concurrency: int
    approval: ApprovalRule
    redact: Redact[Any]
    policies: Sequence[Policy]
    errors: Sequence[type[DomainError]]
    tags: Collection[str]
    annotations: Mapping[str, JSON]
    adapters: Mapping[str, JSON]
    input_schema: Mapping[str, JSON]
    output_schema: Mapping[str, JSON]


def is_text(value: object) -> bool:
    """Tell whether a value is text that says something."""
    return isinstance(value, str) and bool(value.strip())


def _answers_later(function: object) -> bool:
    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return any(is_kind(function) for is_kind in kinds)


class Checks:
    """Collects what is wrong with the fields of one declaration."""

    def __init__(self, where: str) -> None:
        """Start with nothing wrong in `where`."""
        self.where = where
        self.issues: list[Issue] = []

    def add(self, name: str, message: str) -> None:
        """Record one problem of a field."""
        self.issues.append(Issue("OPTION_INVALID", message, f"{self.where}.{name}"))

    def seconds(self, name: str, value: object) -> float:
        """Return a duration in seconds, or record that it is none."""
        try:
            return to_seconds(value, name)
        except TypeError as error:
            self.add(name, str(error))
            return 0.0

    def count(self, name: str, value: object, *, least: int) -> None:
        """Record a value that is no whole number of at least `least`."""
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self.add(name, f"must be a whole number of at least {least}")

    def text(self, name: str, value: object) -> None:
        """Record a value that is neither None nor text that says something."""
        if value is not None and not is_text(value):
            self.add(name, "must be text and not blank")

    def flag(self, name: str, value: object) -> None:
        """Record a value that is neither True nor False."""
        if not isinstance(value, bool):
            self.add(name, "must be True or False")

    def callable(self, name: str, value: object) -> None:
        """Record a value that is neither None nor callable."""
        if value is not None and not callable(value):
            self.add(name, "must be callable")

    def plain_function(self, name: str, value: object) -> None:
        """Record what is not callable, or does not answer when it is called."""
        self.callable(name, value)
        if callable(value) and any(map(_answers_later, (value, type(value).__call__))):
            self.add(name, "must be a plain function, not async and no generator")

    def done(self) -> None:
        """Raise everything that was recorded at once, if anything was."""
        if self.issues:
            raise ConfigurationError(self.issues)
