"""Rules of the application: deciding, combining, and asking access rules. The door of this room."""

from __future__ import annotations

from capgate.policies.access import ask_rule, refused
from capgate.policies.asking import contained, discard
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
from capgate.policies.request import LATER, Open, Phase, PolicyRequest, Question

__all__ = [
    # For the pipeline
    "ALLOW",
    "LATER",
    "Open",
    "PHASES",
    "Decision",
    "Phase",
    "PolicyBatch",
    "PolicyRequest",
    "Question",
    "Ruling",
    "Verdict",
    # Deciding
    "allow",
    "ask_rule",
    "combine",
    "contained",
    "deny",
    "discard",
    "duplicate_names",
    "flatten",
    "hide",
    "in_phase",
    # Declaring
    "policy",
    "refused",
    "require_approval",
]
