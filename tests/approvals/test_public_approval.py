"""The public form of a request shows what a client needs and nothing else."""

from __future__ import annotations

import json

import pytest

from capgate.approvals import public_approval
from capgate.call import Actor
from capgate.testing.sample_approvals import sample, yes


def test_only_five_fields_leave():
    """SI-9: no input, no actor, no approver, no rule, no hash."""
    canary = "canary-7f3a"
    record = sample(
        "apr_1",
        {"card": canary},
        actor=Actor(canary, attributes={"x": canary}),
        decisions=(yes(canary, comment=canary),),
        approver_rules=({"requires": [canary]},),
        idempotency_key=canary,
    )
    shown = public_approval(record)
    assert shown == {
        "id": "apr_1",
        "capability": "orders.refund",
        "message": "Refunds need a manager.",
        "expires_at": "2026-01-01T12:15:00.250000+00:00",
        "status": "pending",
    }
    assert canary not in json.dumps(shown)


@pytest.mark.parametrize(
    ("reasons", "message"),
    [
        (("Large refund",), "Large refund"),
        (("Large refund.",), "Large refund."),
        (("Large refund.", "Odd hour", "Sure?"), "Large refund. Odd hour. Sure?"),
        ((), "This operation needs approval."),
    ],
)
def test_the_message_is_the_reasons_as_sentences(reasons, message):
    """A reason that ends with a full stop does not get a second one."""
    assert public_approval(sample("apr_1", reasons=reasons))["message"] == message
