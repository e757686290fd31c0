"""A store that takes only what every store has to take works."""

from capgate import Actor, ApprovalRequired, ApprovalRule, Engine
from capgate.idempotency import MemoryIdempotency


class PlainStore(MemoryIdempotency):
    """Takes a key and an approval, nothing else."""

    async def suspend(self, key, approval_id):
        return await super().suspend(key, approval_id)


async def test_a_plain_store_keeps_a_suspended_call():
    """A repeat gets the same request, also from a store that is told no execution."""
    engine = Engine("shop", idempotency=PlainStore())

    @engine.capability("orders.refund", approval=ApprovalRule())
    async def refund(order_id: str) -> str:
        """Refund."""
        return order_id

    dana = Actor("u_dana")
    asked = [
        await engine.attempt(refund, {"order_id": "o"}, actor=dana, idempotency_key="k")
        for _ in range(2)
    ]
    assert all(isinstance(each, ApprovalRequired) for each in asked)
    assert asked[0].approval.id == asked[1].approval.id
