"""Rules of the application: deciding, combining, and asking access rules. The door of this room."""

from __future__ import annotations

from capgate.policies.access import ask_rule, refused
from capgate.policies.decision import (
    ALLOW,
    Decision,
    Verdict,
    allow,
    deny,
    hide,
    require_approval,
)
from capgate.policies.evaluate import PolicyBatch, Ruling, in_phase
from capgate.policies.policy import PHASES, combine, duplicate_names, flatten, policy
from capgate.policies.request import Phase, PolicyRequest

__all__ = [
    # For the pipeline
    "ALLOW",
    "PHASES",
    "Decision",
    "Phase",
    "PolicyBatch",
    "PolicyRequest",
    "Ruling",
    "Verdict",
    # Deciding
    "allow",
    "ask_rule",
    "combine",
    "deny",
    "duplicate_names",
    "flatten",
    "hide",
    "in_phase",
    # Declaring
    "policy",
    "refused",
    "require_approval",
]
