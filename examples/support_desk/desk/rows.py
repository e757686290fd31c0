"""The shop's rows, as they lie in the store and in the CSV files. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal, TypeAlias

OrderStatus: TypeAlias = Literal["placed", "shipped", "delivered", "cancelled"]
PaymentStatus: TypeAlias = Literal["authorized", "captured", "refunded", "voided"]
TicketStatus: TypeAlias = Literal["open", "waiting", "closed"]
Priority: TypeAlias = Literal["low", "normal", "high"]


@dataclass(frozen=True, slots=True)
class Product:
    """One article of the catalogue."""

    sku: str
    name: str
    price: Decimal


@dataclass(frozen=True, slots=True)
class Customer:
    """One customer; `email` and `phone` are private."""

    id: str
    name: str
    email: str
    phone: str
    country: str
    tier: Literal["standard", "business"]
    status: Literal["active", "blocked", "erased"]


@dataclass(frozen=True, slots=True)
class Order:
    """One order of one article."""

    id: str
    customer_id: str
    sku: str
    quantity: int
    total: Decimal
    status: OrderStatus
    placed_at: datetime


@dataclass(frozen=True, slots=True)
class Payment:
    """What was paid for one order; `refunded` never exceeds `amount`."""

    id: str
    order_id: str
    amount: Decimal
    refunded: Decimal
    status: PaymentStatus
    method: Literal["card", "transfer", "wallet"]

    @property
    def refundable(self) -> Decimal:
        """What could still be given back."""
        return self.amount - self.refunded if self.status == "captured" else Decimal("0.00")


@dataclass(frozen=True, slots=True)
class Ticket:
    """One conversation with a customer about one order."""

    id: str
    customer_id: str
    order_id: str
    subject: str
    priority: Priority
    status: TicketStatus
    opened_at: datetime
