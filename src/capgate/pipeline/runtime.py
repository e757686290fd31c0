"""The parts of one engine that steps are bound to. Values and references only, no behaviour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from capgate.approvals import ApprovalConfig, Approvals, RuleBook
    from capgate.call import Actor, Call, Clock, Limits, Outcome
    from capgate.capability import AccessRule, Policy
    from capgate.errors import CapabilityError
    from capgate.idempotency import IdempotencyStore
    from capgate.pipeline.evidence import Evidence
    from capgate.pipeline.handler_start import AtomicStart
    from capgate.pipeline.slots import Slots

Authenticate: TypeAlias = "Callable[[Any], Awaitable[Actor | None]]"
ExceptionMap: TypeAlias = Mapping[type[Exception], type[Exception]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One engine's configuration, as its steps use it."""

    clock: Clock
    limits: Limits
    policy_timeout: float
    attempt_timeout: float
    approval_window: float
    cleanup_grace: float
    evidence: Evidence
    policies: tuple[Policy, ...]
    authenticate: Authenticate | None
    authorize: AccessRule | None
    approvals: ApprovalConfig
    desk: Approvals
    rulebook: RuleBook
    idempotency: IdempotencyStore
    exceptions: ExceptionMap
    report: Callable[[CapabilityError], None]
    new_execution_id: Callable[[], str]
    new_approval_id: Callable[[], str]
    jitter: Callable[[], float]
    nest: Callable[..., Awaitable[Outcome[Any]]]
    places: Slots | None
    threads: Slots
    hash_inputs: bool
    strict: bool
    verbose: bool
    removed: frozenset[str]
    live: set[Call]
    atomic_start: AtomicStart | None = None
