"""Putting one engine's parts together: every setting is checked, all problems are told at once."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from capgate.approvals import ApprovalConfig, Approvals, ApprovalStore, MemoryApprovals, RuleBook
from capgate.audit import AuditConfig, Auditor
from capgate.call import Clock, Limits, Outcome, SystemClock, to_seconds
from capgate.capability import Policy
from capgate.engine.reporting import reporter, teller
from capgate.engine.steady import SteadyClock, steady_ids
from capgate.errors import (
    CapabilityError,
    ConfigurationError,
    DomainError,
    Forbidden,
    Issue,
    Unauthenticated,
)
from capgate.idempotency import IdempotencyStore, MemoryIdempotency
from capgate.pipeline import Authenticate, Evidence, Pipeline, Runtime, Slots, full_jitter
from capgate.policies import duplicate_names, flatten

if TYPE_CHECKING:
    from capgate.audit import AuditSink
    from capgate.capability import AccessRule


class UnsafeWarning(UserWarning):
    """An engine was built with less protection than the default."""


class Store(Protocol):
    """One database for everything an engine keeps."""

    approvals: ApprovalStore
    audit: AuditSink
    idempotency: IdempotencyStore


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


def assemble(
    settings: Settings, nest: Callable[..., Awaitable[Outcome[Any]]]
) -> tuple[Runtime, Auditor]:
    """Return the runtime of an engine and the auditor behind it.

    Raises:
        ConfigurationError: With every problem found.
    """
    issues = _issues(settings)
    if issues:
        raise ConfigurationError(issues)
    limits = settings.limits
    audit = _audit(settings)
    clock = SteadyClock.around(settings.clock or SystemClock())
    audit_timeout = to_seconds(limits.audit_timeout, "audit_timeout")
    policy_timeout = to_seconds(limits.policy_timeout, "policy_timeout")
    auditor = Auditor(audit.sinks, strict=audit.strict, timeout=audit_timeout)
    evidence = Evidence(auditor, clock, strict=audit.strict)
    config = _approvals(settings)
    rulebook = settings.rulebook or RuleBook()
    desk = Approvals(
        config.store or MemoryApprovals(),
        clock=clock,
        rulebook=rulebook,
        keys=config.keys,
        timeout=policy_timeout,
        emit=teller(auditor, clock),
    )
    if desk.store.durable and config.load_actor is None:
        warnings.warn(
            "a durable approval store without ApprovalConfig(load_actor=…): resumed calls run with"
            " the requester's permissions as they were stored",
            UnsafeWarning,
            stacklevel=4,
        )
    runtime = Runtime(
        clock=clock,
        limits=limits,
        policy_timeout=policy_timeout,
        attempt_timeout=to_seconds(limits.timeout, "timeout"),
        approval_window=to_seconds(limits.approval_expires_in, "approval_expires_in"),
        cleanup_grace=to_seconds(limits.cleanup_grace, "cleanup_grace"),
        evidence=evidence,
        policies=tuple(settings.policies),
        authenticate=settings.authenticate,
        authorize=settings.authorize,
        approvals=config,
        desk=desk,
        rulebook=rulebook,
        idempotency=_idempotency(settings),
        exceptions=dict(settings.exceptions or {}),
        report=reporter(settings.on_internal_error),
        new_execution_id=steady_ids(settings.new_id, "exe_"),
        new_approval_id=steady_ids(settings.new_id, "apr_"),
        jitter=settings.jitter,
        nest=nest,
        places=_places(limits),
        threads=Slots(limits.max_threads, limits.max_queue),
        hash_inputs=audit.hash_inputs,
        strict=audit.strict,
        verbose=audit.verbose,
        removed=frozenset(() if settings.pipeline is None else settings.pipeline.removed),
        live=set(),
    )
    return runtime, auditor


def _places(limits: Limits) -> Slots | None:
    if limits.max_concurrency is None:
        return None
    return Slots(limits.max_concurrency, limits.max_queue)


def _audit(settings: Settings) -> AuditConfig:
    config = AuditConfig.of(settings.audit)
    if settings.store is None:
        return config
    return replace_sinks(config, (*config.sinks, settings.store.audit))


def replace_sinks(config: AuditConfig, sinks: Sequence[AuditSink]) -> AuditConfig:
    """Return the same configuration with other sinks."""
    return AuditConfig(
        sinks,
        strict=config.strict,
        verbose=config.verbose,
        hash_inputs=config.hash_inputs,
    )


def _approvals(settings: Settings) -> ApprovalConfig:
    given = settings.approvals
    config = given if isinstance(given, ApprovalConfig) else ApprovalConfig(given)
    if config.store is None and settings.store is not None:
        return replace(config, store=settings.store.approvals)
    return config


def _idempotency(settings: Settings) -> IdempotencyStore:
    if settings.idempotency is not None:
        return settings.idempotency
    return MemoryIdempotency() if settings.store is None else settings.store.idempotency


def _issues(settings: Settings) -> list[Issue]:
    issues = _policy_issues(settings.policies)
    issues += _exception_issues(settings.exceptions)
    checks: list[tuple[str, object, type]] = [
        ("pipeline", settings.pipeline, Pipeline),
        ("limits", settings.limits, Limits),
    ]
    issues += [
        _invalid(name, f"must be a {kind.__name__}", value)
        for name, value, kind in checks
        if value is not None and not isinstance(value, kind)
    ]
    for name in ("authenticate", "authorize", "on_internal_error", "new_id"):
        value: object = getattr(settings, name)
        if value is not None and not callable(value):
            issues.append(_invalid(name, "must be callable", value))
    if settings.clock is not None and not callable(getattr(settings.clock, "now", None)):
        issues.append(_invalid("clock", "must have a now() method", settings.clock))
    missing = ("begin", "complete", "release", "suspend")
    if settings.idempotency is not None and not all(
        callable(getattr(settings.idempotency, name, None)) for name in missing
    ):
        issues.append(_invalid("idempotency", "must be an IdempotencyStore", settings.idempotency))
    for build in (_audit, _approvals):
        try:
            build(settings)
        except ConfigurationError as error:
            issues += error.issues
    return issues


def _policy_issues(policies: object) -> list[Issue]:
    if isinstance(policies, Policy) or not isinstance(policies, Sequence):
        return [_invalid("policies", "must be a list of policies", policies)]
    wrong = [each for each in policies if not isinstance(each, Policy)]
    if wrong:
        return [_invalid("policies", "holds what is no policy: use @policy", wrong[0])]
    flat = [member for each in policies for member in flatten(each)]
    return duplicate_names(flat, "policies")


def _exception_issues(exceptions: object) -> list[Issue]:
    if exceptions is None:
        return []
    if not isinstance(exceptions, Mapping):
        return [_invalid("exceptions", "must map exception classes to classes", exceptions)]
    targets = (DomainError, Forbidden, Unauthenticated)
    return [
        _invalid(
            "exceptions", "must map an Exception to DomainError, Forbidden or Unauthenticated", key
        )
        for key, value in exceptions.items()
        if not (_is_exception(key) and isinstance(value, type) and issubclass(value, targets))
    ]


def _is_exception(key: object) -> bool:
    return isinstance(key, type) and issubclass(key, Exception)


def _invalid(name: str, text: str, value: object) -> Issue:
    return Issue("ENGINE_OPTION_INVALID", f"{name} {text}, got {type(value).__name__}", name)


def check_names(name: object, version: object, surfaces: object) -> frozenset[str]:
    """Return the engine's own surfaces.

    Raises:
        ConfigurationError: A name is blank or no text.
    """
    issues = [
        _invalid(what, "must be a str that is not blank", value)
        for what, value in (("name", name), ("version", version))
        if not isinstance(value, str) or not value.strip()
    ]
    names: frozenset[object] = frozenset()
    if isinstance(surfaces, str) or not isinstance(surfaces, Collection):
        issues.append(_invalid("surfaces", "must be a collection of names", surfaces))
    else:
        names = frozenset(surfaces)
        issues += [
            _invalid("surfaces", "must hold names that are not blank", each)
            for each in names
            if not isinstance(each, str) or not each.strip()
        ]
    if issues:
        raise ConfigurationError(issues)
    return frozenset(str(each) for each in names)
