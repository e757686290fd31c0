"""Putting one engine's parts together, once its settings have been checked."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from capgate.approvals import Approvals, MemoryApprovals, RuleBook
from capgate.audit import Auditor
from capgate.call import SystemClock, to_seconds
from capgate.engine.checking import check_settings
from capgate.engine.reporting import reporter, teller
from capgate.engine.settings import (
    UnsafeWarning,
    approvals_of,
    atomic_start_of,
    audit_of,
    idempotency_of,
)
from capgate.engine.steady import SteadyClock, steady_ids, steady_jitter
from capgate.pipeline import Evidence, Runtime, Slots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from capgate.approvals import ApprovalConfig
    from capgate.call import Clock, Limits, Outcome
    from capgate.engine.settings import Settings


def assemble(
    settings: Settings, nest: Callable[..., Awaitable[Outcome[Any]]], *, deps: object
) -> tuple[Runtime, Auditor]:
    """Return the runtime of an engine and the auditor behind it.

    Args:
        settings: The engine's.
        nest: How a call inside another is served.
        deps: What approver rules see as `request.deps`.

    Raises:
        ConfigurationError: With every problem found.
    """
    check_settings(settings)
    audit = audit_of(settings)
    seconds = to_seconds(settings.limits.audit_timeout, "audit_timeout")
    auditor = Auditor(audit.sinks, strict=audit.strict, timeout=seconds)
    runtime = _runtime(settings, auditor, nest, deps)
    forgets = runtime.desk.store.durable and runtime.approvals.load_actor is None
    _warn(runtime.removed, forgets=forgets)
    return runtime, auditor


def _runtime(
    settings: Settings, auditor: Auditor, nest: Callable[..., Awaitable[Outcome[Any]]], deps: object
) -> Runtime:
    limits = settings.limits
    audit = audit_of(settings)
    clock = SteadyClock.around(settings.clock or SystemClock())
    config = approvals_of(settings)
    rulebook = settings.rulebook or RuleBook()
    policy_timeout = to_seconds(limits.policy_timeout, "policy_timeout")
    return Runtime(
        clock=clock,
        limits=limits,
        policy_timeout=policy_timeout,
        attempt_timeout=to_seconds(limits.timeout, "timeout"),
        approval_window=to_seconds(limits.approval_expires_in, "approval_expires_in"),
        cleanup_grace=to_seconds(limits.cleanup_grace, "cleanup_grace"),
        evidence=Evidence(auditor, clock, strict=audit.strict),
        policies=tuple(settings.policies),
        authenticate=settings.authenticate,
        authorize=settings.authorize,
        approvals=config,
        desk=_desk(config, auditor, clock, rulebook, seconds=policy_timeout, deps=deps),
        rulebook=rulebook,
        idempotency=idempotency_of(settings),
        exceptions=dict(settings.exceptions or {}),
        report=reporter(settings.on_internal_error),
        new_execution_id=steady_ids(settings.new_id, "exe_"),
        new_approval_id=steady_ids(settings.new_id, "apr_"),
        jitter=steady_jitter(settings.jitter),
        nest=nest,
        places=_places(limits),
        threads=Slots(limits.max_threads, limits.max_queue),
        hash_inputs=audit.hash_inputs,
        strict=audit.strict,
        verbose=audit.verbose,
        removed=frozenset(() if settings.pipeline is None else settings.pipeline.removed),
        live=set(),
        atomic_start=atomic_start_of(settings),
    )


def _desk(
    config: ApprovalConfig,
    auditor: Auditor,
    clock: Clock,
    rulebook: RuleBook,
    *,
    seconds: float,
    deps: object,
) -> Approvals:
    return Approvals(
        config.store or MemoryApprovals(),
        clock=clock,
        rulebook=rulebook,
        keys=config.keys,
        timeout=seconds,
        emit=teller(auditor, clock),
        deps=deps,
    )


def _warn(removed: frozenset[str], *, forgets: bool) -> None:
    """Say what this engine does without; the warning points at who builds it."""
    if removed:
        text = f"the pipeline lacks {', '.join(sorted(removed))}: nothing does what these stages do"
        warnings.warn(text, UnsafeWarning, stacklevel=4)
    if forgets:
        warnings.warn(
            "a durable approval store without ApprovalConfig(load_actor=…): resumed calls run with"
            " the requester's permissions as they were stored",
            UnsafeWarning,
            stacklevel=4,
        )


def _places(limits: Limits) -> Slots | None:
    if limits.max_concurrency is None:
        return None
    return Slots(limits.max_concurrency, limits.max_queue)
