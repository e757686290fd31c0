"""A policy tested alone, with the request it would get."""

import pytest

from capgate import Decision, Engine, PolicyRequest, allow, deny, policy, require_approval
from capgate.capability import ContractViolation
from capgate.testing import fake_actor, fake_policy_request

engine = Engine("shop")


@engine.capability("orders.refund", risk="high")
async def refund(order_id: str, cents: int = 100) -> str:
    """Refund."""
    return order_id


@policy("limit")
def limit(request: PolicyRequest) -> Decision:
    if request.actor.kind == "automation":
        return deny()
    return allow() if request.arguments["cents"] <= 100 else require_approval("Too much.")


def test_a_policy_sees_validated_input():
    """Defaults of the contract are in the request."""
    assert limit.evaluate(fake_policy_request(refund, {"order_id": "o"})) == allow()


def test_a_policy_sees_the_actor_and_the_capability():
    """The actor and the view are what they would be in a call."""
    request = fake_policy_request(
        refund, {"order_id": "o"}, actor=fake_actor(kind="automation"), surface="mcp"
    )
    assert limit.evaluate(request) == deny()
    assert (request.capability.risk, request.surface) == ("high", "mcp")


def test_a_request_for_discovery_has_no_input():
    """In the discovery phase there is nothing to read yet."""
    request = fake_policy_request(refund, phase="discovery", dry_run=True)
    assert (request.input, dict(request.arguments), request.dry_run) == (None, {}, True)


def test_a_wrong_input_is_refused():
    """The input is judged by the contract, as in a real call."""
    with pytest.raises(ContractViolation):
        fake_policy_request(refund, {"order_id": 3})
