"""What a record shows of itself."""

from capgate import Actor, ApprovalRule, Engine


async def test_a_record_shows_no_input():
    """Neither the input nor what stands for it is in a record's repr (SI-10)."""
    engine = Engine("shop")

    @engine.capability("orders.pay", approval=ApprovalRule())
    async def pay(card: str) -> None:
        """Pay."""

    outcome = await engine.attempt(pay, {"card": "4111-canary"}, actor=Actor("u_dana"))
    assert "canary" not in repr(outcome.approval) + str(outcome.approval) + repr(outcome)
