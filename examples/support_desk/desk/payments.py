"""Capabilities that move money or list where it went."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from capgate import Context, Library, Retry, requires
from examples.support_desk.desk.errors import (
    GatewayTimeoutError,
    NotCapturableError,
    NotFoundError,
    NotRefundableError,
)
from examples.support_desk.desk.fields import Money, OrderId, Reason
from examples.support_desk.desk.policies import (
    blocked_customers,
    fraud_screen,
    refund_limit,
    still_refundable,
)
from examples.support_desk.desk.rows import Payment, PaymentStatus
from examples.support_desk.desk.world import Desk

payments = Library("payments", "1.0")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was given back, and who agreed."""

    order_id: str
    amount: Decimal
    left: Decimal
    approved_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file to hand to a person."""

    name: str
    rows: int
    content: str


@payments.capability(
    "payments.refund",
    side_effect="write",
    risk="high",
    expose={"direct", "tools", "mcp", "http"},
    access=requires("payments:refund"),
    policies=[blocked_customers, refund_limit, fraud_screen, still_refundable],
    errors=[NotFoundError, NotRefundableError],
    tags={"office-hours"},
)
async def refund(order_id: OrderId, amount: Money, reason: Reason, ctx: Context[Desk]) -> Receipt:
    """Give money back for an order."""
    with ctx.deps.store.transaction() as shop:
        payment = shop.payment_of(order_id)
        if payment.refundable < amount:
            raise NotRefundableError(details={"refundable": str(payment.refundable)})
        paid_back = shop.payments.put(payment.id, _with_refund(payment, amount))
    approvers = () if ctx.approval is None else tuple(a.id for a in ctx.approval.approvers())
    return Receipt(order_id, amount, paid_back.refundable, approvers)


@payments.capability(
    "payments.capture",
    side_effect="external",
    risk="medium",
    expose={"direct", "http", "workflow"},
    access=requires("payments:capture"),
    idempotent=True,
    retry=Retry(attempts=3, backoff=0.01),
    errors=[NotFoundError, NotCapturableError, GatewayTimeoutError],
    tags={"office-hours"},
)
async def capture(order_id: OrderId, ctx: Context[Desk]) -> Payment:
    """Collect the authorized money of an order.

    The gateway gets the same key on every attempt, so an answer that was lost costs nothing.
    """
    payment = ctx.deps.store.tables.payment_of(order_id)
    if payment.status != "authorized":
        raise NotCapturableError
    await ctx.deps.gateway.capture(payment, key=ctx.idempotency_key)
    with ctx.deps.store.transaction() as shop:
        return shop.payments.put(payment.id, replace(payment, status="captured"))


@payments.capability(
    "payments.export",
    side_effect="read",
    risk="medium",
    expose={"direct", "cli", "http"},
    access=requires("payments:export"),
    tags={"bulk"},
)
def export(
    status: Annotated[PaymentStatus, Field(description="Payments in this state.")],
    ctx: Context[Desk],
) -> CsvFile:
    """Write payments as CSV; a plain function, so it runs in a worker thread."""
    rows = [p for p in ctx.deps.store.tables.payments.values() if p.status == status]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "order_id", "amount", "refunded"))
    writer.writerows((p.id, p.order_id, p.amount, p.refunded) for p in rows)
    return CsvFile(f"payments-{status}.csv", len(rows), text.getvalue())


def _with_refund(payment: Payment, amount: Decimal) -> Payment:
    refunded = payment.refunded + amount
    status = "refunded" if refunded == payment.amount else payment.status
    return replace(payment, refunded=refunded, status=status)
