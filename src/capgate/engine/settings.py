"""What an engine is configured with. Checking the values is in `checking.py`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from capgate.approvals import ApprovalConfig, ApprovalStore, RuleBook, StartKeepingApprovals
from capgate.audit import AuditConfig
from capgate.call import Clock, Limits
from capgate.errors import ConfigurationError, Issue
from capgate.idempotency import IdempotencyStore, MemoryIdempotency, StartKeepingKeys
from capgate.pipeline import AtomicStart, Authenticate, Pipeline, full_jitter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from capgate.audit import AuditSink
    from capgate.capability import AccessRule, Policy
    from capgate.errors import CapabilityError


class UnsafeWarning(UserWarning):
    """An engine was built with less protection than the default."""


class Store(Protocol):
    """One database for everything an engine keeps."""

    approvals: ApprovalStore
    audit: AuditSink
    idempotency: IdempotencyStore


@runtime_checkable
class Openable(Protocol):
    """A store that is opened and closed with its engine."""

    async def open(self) -> None:
        """Make it ready; safe to repeat."""
        ...

    async def aclose(self) -> None:
        """Let go of everything; safe to repeat."""
        ...


async def open_store(store: object) -> None:
    """Open a store that can be opened."""
    if isinstance(store, Openable):
        await store.open()


async def close_store(store: object) -> None:
    """Close a store that can be closed."""
    if isinstance(store, Openable):
        await store.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `Engine(...)` was given."""

    pipeline: Pipeline | None = None
    policies: Sequence[Policy] = ()
    authenticate: Authenticate | None = None
    authorize: AccessRule | None = None
    store: Store | None = None
    approvals: ApprovalStore | ApprovalConfig | None = None
    idempotency: IdempotencyStore | None = None
    audit: AuditSink | Sequence[AuditSink] | AuditConfig | None = None
    limits: Limits = field(default_factory=Limits)
    exceptions: Mapping[type[Exception], type[Exception]] | None = None
    on_internal_error: Callable[[CapabilityError], object] | None = None
    clock: Clock | None = None
    new_id: Callable[[], str] | None = None
    jitter: Callable[[], float] = full_jitter
    rulebook: RuleBook | None = None  # no option of `Engine`: for `capgate.testing`


def audit_of(settings: Settings) -> AuditConfig:
    """Return the audit, the store's sink included, once.

    Raises:
        ConfigurationError: What was given is no sink, or a strict audit has none.
    """
    config = AuditConfig.of(settings.audit)
    if settings.store is None:
        if config.strict and not config.sinks:
            problem = "strict audit needs at least one sink"
            raise ConfigurationError([Issue("AUDIT_STRICT_WITHOUT_SINK", problem, "audit")])
        return config
    kept = settings.store.audit
    return AuditConfig(
        (*(sink for sink in config.sinks if sink is not kept), kept),
        strict=config.strict,
        verbose=config.verbose,
        hash_inputs=config.hash_inputs,
    )


def approvals_of(settings: Settings) -> ApprovalConfig:
    """Return how approvals are kept and decided.

    Raises:
        ConfigurationError: What was given is no store.
    """
    given = settings.approvals
    config = given if isinstance(given, ApprovalConfig) else ApprovalConfig(given)
    if config.store is None and settings.store is not None:
        return replace(config, store=settings.store.approvals)
    return config


def idempotency_of(settings: Settings) -> IdempotencyStore:
    """Return where keys are kept."""
    if settings.idempotency is not None:
        return settings.idempotency
    return MemoryIdempotency() if settings.store is None else settings.store.idempotency


def atomic_start_of(settings: Settings) -> AtomicStart | None:
    """Return which stores can keep a handler's start in the transaction that spends, if any."""
    store, keys = settings.store, idempotency_of(settings)
    if store is None:
        return None
    approvals = approvals_of(settings).store
    own = approvals is store.approvals and isinstance(approvals, StartKeepingApprovals)
    kept = keys is store.idempotency and isinstance(keys, StartKeepingKeys) and keys.keeps_starts
    return AtomicStart(
        store.audit,
        approvals=own and cast("StartKeepingApprovals", approvals).keeps_starts,
        keys=cast("StartKeepingKeys", keys) if kept else None,
    )
