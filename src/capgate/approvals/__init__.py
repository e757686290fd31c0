"""Approvals: the question, who may answer it, and the single-use yes. The room's only door."""

from __future__ import annotations

from capgate.approvals.binding import bind, intact, seal
from capgate.approvals.config import ApprovalConfig, ApprovalHandler, LoadActor
from capgate.approvals.deciding import Approvals
from capgate.approvals.guarded import GuardedStore
from capgate.approvals.memory import MemoryApprovals
from capgate.approvals.public import public_approval
from capgate.approvals.record import (
    ApprovalDecision,
    ApprovalRecord,
    ApprovalStatus,
    check_comment,
)
from capgate.approvals.requirements import (
    MergedRequirement,
    Requirement,
    covers,
    merge,
)
from capgate.approvals.rules import RuleBook
from capgate.approvals.store import (
    ApprovalStore,
    StartKeepingApprovals,
    check_decidable,
    check_resumable,
    consumed,
    decided,
    released,
    withdrawn,
)
from capgate.approvals.telling import Emit

__all__ = [
    # Values
    "ApprovalRecord",
    "ApprovalDecision",
    "ApprovalStatus",
    "public_approval",
    # Settings
    "ApprovalConfig",
    "ApprovalHandler",
    "LoadActor",
    # Stores: the protocol, the memory version, the rules every store applies
    "ApprovalStore",
    "StartKeepingApprovals",
    "MemoryApprovals",
    "GuardedStore",
    "check_comment",
    "check_decidable",
    "check_resumable",
    "decided",
    "consumed",
    "released",
    "withdrawn",
    # Asking
    "Requirement",
    "MergedRequirement",
    "merge",
    "covers",
    "bind",
    "intact",
    "seal",
    # Answering
    "Approvals",
    "Emit",
    "RuleBook",
]
