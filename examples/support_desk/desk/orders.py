"""Capabilities about orders: look, search, track, cancel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, Field

from capgate import Context, Library, Retry, requires
from examples.support_desk.desk.errors import CourierBusyError, NotCancellableError, NotFoundError
from examples.support_desk.desk.fields import CustomerId, OrderId, Reason
from examples.support_desk.desk.payments import Receipt, refund
from examples.support_desk.desk.rows import Order, OrderStatus
from examples.support_desk.desk.world import Desk, Tracking

orders = Library("orders", "1.0")
EVERYWHERE = frozenset({"direct", "tools", "mcp", "http", "cli"})


class OrderSearch(BaseModel):
    """What to look for; every field narrows."""

    status: OrderStatus | None = None
    customer_id: CustomerId | None = None
    min_total: Decimal = Field(default=Decimal(0), ge=0, description="In euro.")
    limit: int = Field(default=10, ge=1, le=50)

    def matches(self, order: Order) -> bool:
        """Tell whether an order is wanted."""
        return (
            self.status in {None, order.status}
            and self.customer_id in {None, order.customer_id}
            and order.total >= self.min_total
        )


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A cancelled order and what was paid back for it."""

    order: Order
    receipt: Receipt | None


@orders.capability(
    "orders.get",
    side_effect="read",
    risk="low",
    expose=EVERYWHERE,
    access=requires("orders:read"),
    errors=[NotFoundError],
)
async def get_order(order_id: OrderId, ctx: Context[Desk]) -> Order:
    """Return one order."""
    return ctx.deps.store.tables.orders[order_id]


@orders.capability(
    "orders.search",
    side_effect="read",
    risk="low",
    expose=EVERYWHERE,
    access=requires("orders:read"),
)
async def search_orders(query: OrderSearch, ctx: Context[Desk]) -> list[Order]:
    """Return the newest orders that match."""
    found = [order for order in ctx.deps.store.tables.orders.values() if query.matches(order)]
    return sorted(found, key=lambda order: order.placed_at, reverse=True)[: query.limit]


@orders.capability(
    "orders.track",
    side_effect="read",
    risk="low",
    expose=EVERYWHERE,
    access=requires("orders:read"),
    retry=Retry(attempts=3, backoff=0.01),
    errors=[NotFoundError, CourierBusyError],
)
async def track_order(order_id: OrderId, ctx: Context[Desk]) -> Tracking:
    """Ask the courier where a parcel is; a busy courier is asked again."""
    return await ctx.deps.courier.locate(ctx.deps.store.tables.orders[order_id])


@orders.capability(
    "orders.cancel",
    side_effect="write",
    risk="medium",
    expose={"direct", "tools", "http"},
    access=requires("orders:cancel"),
    errors=[NotFoundError, NotCancellableError],
)
async def cancel_order(order_id: OrderId, reason: Reason, ctx: Context[Desk]) -> Cancellation:
    """Cancel an order that is not delivered yet, and give back what was paid.

    The refund is a governed call of its own: its policies and its approval gate apply.
    """
    shop = ctx.deps.store.tables
    order, payment = shop.orders[order_id], shop.payment_of(order_id)
    if order.status not in {"placed", "shipped"}:
        raise NotCancellableError(details={"status": order.status})
    receipt: Receipt | None = None
    if payment.refundable:
        wanted = {"order_id": order_id, "amount": payment.refundable, "reason": reason}
        receipt = await ctx.invoke(refund, wanted)
    with ctx.deps.store.transaction() as draft:
        cancelled = draft.orders.put(order_id, replace(order, status="cancelled"))
    return Cancellation(cancelled, receipt)


@orders.capability(
    "orders.import_legacy",
    side_effect="write",
    risk="high",
    expose=set(),
    access=requires("orders:import"),
)
async def import_legacy(
    lines: Annotated[list[str], Field(description="Lines of the old system's file.")],
) -> int:
    """Take over orders of the old system; staged, so it is registered and reachable nowhere."""
    return len(lines)
