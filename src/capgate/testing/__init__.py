"""Doubles and contracts for tests of what is built on capgate. The door of this room."""

from __future__ import annotations

from capgate.testing.actors import fake_actor
from capgate.testing.captured import CapturedAudit
from capgate.testing.check import Check
from capgate.testing.clock import FakeClock
from capgate.testing.contexts import FakeContext, fake_context
from capgate.testing.contracts_approvals import approval_store_contract
from capgate.testing.contracts_idempotency import idempotency_store_contract
from capgate.testing.engine import TestEngine, counting_ids
from capgate.testing.policies import fake_policy_request
from capgate.testing.probe import ApprovalProbe

__all__ = [
    # An engine
    "TestEngine",
    "CapturedAudit",
    "ApprovalProbe",
    "FakeClock",
    "counting_ids",
    # A handler, a policy
    "fake_actor",
    "fake_context",
    "FakeContext",
    "fake_policy_request",
    # A store
    "approval_store_contract",
    "idempotency_store_contract",
    "Check",
]
