"""A small shop to test against: an engine as an application would build it."""

from __future__ import annotations

import pytest

from capgate import ApprovalRule, Context, Engine, requires
from capgate.audit import MemoryAudit


class Shop:
    """One application's engine, its own audit, and what its handlers did."""

    def __init__(self) -> None:
        self.audit = MemoryAudit()
        self.ran: list[str] = []
        self.engine = Engine("shop", version="7", audit=self.audit, deps="shop-deps")

        @self.engine.capability(description="Echo.", side_effect="read")
        async def echo(text: str) -> str:
            self.ran.append("echo")
            return text

        rule = ApprovalRule(approvers=requires("refunds:approve"))

        @self.engine.capability(description="Refund.", side_effect="write", approval=rule)
        async def refund(context: Context, order: str, amount: int = 3) -> dict[str, int]:
            self.ran.append("refund")
            return {order: amount}

        self.echo = echo
        self.refund = refund


@pytest.fixture
def shop():
    return Shop()
