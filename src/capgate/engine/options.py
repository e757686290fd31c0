"""The keyword arguments of the engine's methods, as types. Checking them is not here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from capgate.approvals import ApprovalConfig, ApprovalStore
    from capgate.audit import AuditConfig, AuditSink
    from capgate.call import Actor, CancelToken, Clock, Duration, Limits
    from capgate.capability import AccessRule, Policy
    from capgate.engine.discover import DiscoveryScope
    from capgate.engine.settings import Store
    from capgate.errors import CapabilityError
    from capgate.idempotency import IdempotencyStore
    from capgate.pipeline import Authenticate, Pipeline


class EngineOptions(TypedDict, total=False):
    """Settings of an engine besides its name, dependencies, libraries and surfaces."""

    pipeline: Pipeline | None
    policies: Sequence[Policy]
    authenticate: Authenticate | None
    authorize: AccessRule | None
    store: Store | None
    approvals: ApprovalStore | ApprovalConfig | None
    idempotency: IdempotencyStore | None
    audit: AuditSink | Sequence[AuditSink] | AuditConfig | None
    limits: Limits
    exceptions: Mapping[type[Exception], type[Exception]] | None
    on_internal_error: Callable[[CapabilityError], object] | None
    clock: Clock | None
    new_id: Callable[[], str] | None
    jitter: Callable[[], float]


class ViewCallOptions(TypedDict, total=False):
    """Options of a call whose surface is fixed.

    `timeout` is seconds, or a timedelta, for the whole call.
    """

    actor: Actor | None
    credentials: object
    deps: Any
    cancel: CancelToken | None
    timeout: Duration | None
    correlation_id: str | None
    idempotency_key: str | None


class CallOptions(ViewCallOptions, total=False):
    """Options of a call."""

    surface: str


class ResumeOptions(TypedDict, total=False):
    """Options of a resumed call."""

    actor: Actor | None
    deps: Any
    cancel: CancelToken | None
    timeout: Duration | None


class BlockingResumeOptions(ResumeOptions, total=False):
    """Options of a resumed call whose surface is not fixed."""

    expected_surface: str | None


class DiscoverOptions(TypedDict, total=False):
    """Options of a discovery walk."""

    actor: Actor | None
    credentials: object
    deps: Any
    scope: DiscoveryScope | None


class ExplainOptions(TypedDict, total=False):
    """Options of an explanation whose surface is fixed."""

    actor: Actor | None
    credentials: object
    deps: Any
