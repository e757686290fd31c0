"""capgate: governed calls for Python services. This is the public door.

Names are loaded from their rooms when they are first used, so that what only finds capgate
installed (a test runner that loads its plugin, a tool that reads its version) pays nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from capgate.approvals import ApprovalConfig, public_approval
    from capgate.audit import AuditConfig
    from capgate.call import (
        Actor,
        ApprovalRequired,
        Cancelled,
        CancelToken,
        Clock,
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
        CapabilityView,
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
    from capgate.pipeline import (
        Pipeline,
        Skip,
        Stage,
        Step,
    )
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
    "CapabilityView",
    "Clock",
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

_HOMES: Final = {
    "capgate.approvals": (
        "ApprovalConfig",
        "public_approval",
    ),
    "capgate.audit": ("AuditConfig",),
    "capgate.call": (
        "Actor",
        "ApprovalRequired",
        "CancelToken",
        "Cancelled",
        "Clock",
        "Completed",
        "Context",
        "Failed",
        "Invocation",
        "Limits",
        "Outcome",
    ),
    "capgate.capability": (
        "AccessRequest",
        "ApprovalRule",
        "Capability",
        "CapabilityView",
        "Library",
        "Redact",
        "Retry",
        "canonical_json",
        "input_hash",
        "requires",
    ),
    "capgate.engine": (
        "DiscoveryScope",
        "Engine",
    ),
    "capgate.errors": (
        "CapabilityError",
        "CompositionError",
        "ConfigurationError",
        "DomainError",
        "Effect",
        "ErrorCode",
        "FailureStage",
        "Forbidden",
        "Unauthenticated",
        "public_error",
    ),
    "capgate.pipeline": (
        "Pipeline",
        "Skip",
        "Stage",
        "Step",
    ),
    "capgate.policies": (
        "Decision",
        "PolicyRequest",
        "allow",
        "combine",
        "deny",
        "hide",
        "policy",
        "require_approval",
    ),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'capgate' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
