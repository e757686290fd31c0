"""capgate: governed calls for Python services. This is the public door; no logic lives here."""

from __future__ import annotations

from capgate.approvals import ApprovalConfig, public_approval
from capgate.audit import AuditConfig
from capgate.call import (
    Actor,
    ApprovalRequired,
    Cancelled,
    CancelToken,
    Completed,
    Context,
    Failed,
    Invocation,
    Limits,
    Outcome,
)
from capgate.capability import (
    AccessRequest,
    ApprovalRule,
    Capability,
    Library,
    Redact,
    Retry,
    canonical_json,
    input_hash,
    requires,
)
from capgate.engine import DiscoveryScope, Engine
from capgate.errors import (
    CapabilityError,
    CompositionError,
    ConfigurationError,
    DomainError,
    Effect,
    ErrorCode,
    FailureStage,
    Forbidden,
    Unauthenticated,
    public_error,
)
from capgate.pipeline import Pipeline, Skip, Stage, Step
from capgate.policies import (
    Decision,
    PolicyRequest,
    allow,
    combine,
    deny,
    hide,
    policy,
    require_approval,
)

__all__ = [
    # Engine and capabilities
    "Engine",
    "Library",
    "Capability",
    "Context",
    "Retry",
    "ApprovalRule",
    "Redact",
    "Limits",
    # Callers
    "Actor",
    "CancelToken",
    "DiscoveryScope",
    # Outcomes
    "Outcome",
    "Completed",
    "ApprovalRequired",
    "Failed",
    "Cancelled",
    "Effect",
    # Errors
    "CapabilityError",
    "ErrorCode",
    "FailureStage",
    "DomainError",
    "Unauthenticated",
    "Forbidden",
    "ConfigurationError",
    "CompositionError",
    "public_error",
    # Rules
    "policy",
    "PolicyRequest",
    "Decision",
    "combine",
    "allow",
    "deny",
    "hide",
    "require_approval",
    "AccessRequest",
    "requires",
    # Approvals and audit
    "ApprovalConfig",
    "AuditConfig",
    "public_approval",
    "canonical_json",
    "input_hash",
    # Pipeline
    "Pipeline",
    "Stage",
    "Step",
    "Skip",
    "Invocation",
]
