"""Capabilities and their contracts: declaring, validating, composing. The room's only door.

No logic lives here. Policies, approvals and execution are other rooms.
"""

from __future__ import annotations

from capgate.capability.canonical import canonical_json, input_hash, parse_json
from capgate.capability.capability import Capability, CapabilityView, Definition
from capgate.capability.compose import Composed, Include, compose, local, unknown_surfaces
from capgate.capability.contract import Contract
from capgate.capability.declarations import (
    READ_ONLY,
    SURFACES,
    Access,
    AccessRequest,
    AccessRule,
    ApprovalRule,
    CapabilityOptions,
    PermissionRule,
    Redact,
    Retry,
    Risk,
    SideEffect,
    requires,
)
from capgate.capability.decorator import CapabilityDecorator, capability_decorator
from capgate.capability.frozen import FrozenDict, FrozenList, freeze, thaw
from capgate.capability.json_boundary import NotJson, capture, snapshot
from capgate.capability.library import Library, declare
from capgate.capability.policy import Policy
from capgate.capability.shape import Refuse
from capgate.capability.signature import Handler
from capgate.capability.violation import ContractIssue, ContractViolation

__all__ = [
    "Refuse",
    # Declaring
    "Library",
    "Capability",
    "CapabilityView",
    "CapabilityOptions",
    "CapabilityDecorator",
    "Definition",
    "Handler",
    "capability_decorator",
    "declare",
    # What a declaration says
    "Access",
    "AccessRequest",
    "AccessRule",
    "ApprovalRule",
    "PermissionRule",
    "Policy",
    "Redact",
    "Retry",
    "Risk",
    "SideEffect",
    "READ_ONLY",
    "SURFACES",
    "requires",
    # Putting together
    "Composed",
    "Include",
    "compose",
    "local",
    "unknown_surfaces",
    # Contracts
    "Contract",
    "ContractIssue",
    "ContractViolation",
    # JSON
    "FrozenDict",
    "FrozenList",
    "NotJson",
    "canonical_json",
    "capture",
    "freeze",
    "input_hash",
    "parse_json",
    "snapshot",
    "thaw",
]
