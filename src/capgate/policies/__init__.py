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

__all__ = [  # noqa: RUF022  grouped for the reader
    # Declaring
    "policy",
    "combine",
    "PHASES",
    # Deciding
    "allow",
    "deny",
    "hide",
    "require_approval",
    "Decision",
    "PolicyRequest",
    # For the pipeline
    "ALLOW",
    "Phase",
    "PolicyBatch",
    "Ruling",
    "Verdict",
    "ask_rule",
    "duplicate_names",
    "flatten",
    "in_phase",
    "refused",
]
