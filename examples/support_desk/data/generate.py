"""Writes the sample shop: five tables whose rows agree with each other.

Run it from the repository root: `python -m examples.support_desk.data.generate`. The seed is
fixed, so it writes the same bytes each time. No person, address or shop in it exists.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

SEED = 20261130
HERE = Path(__file__).parent
FIRST_ORDER = datetime.fromisoformat("2026-08-20T08:00:00+00:00")
PRODUCTS = {
    "Desk lamp": "39.00",
    "Oak shelf": "89.50",
    "Office chair": "249.00",
    "Standing desk": "579.00",
    "Notebook, pack of 5": "12.40",
    "Fountain pen": "28.90",
    "Monitor arm": "119.00",
    "Cable box": "17.25",
    "Whiteboard": "74.00",
    "Filing cabinet": "189.00",
    "Coat stand": "54.80",
    "Footrest": "45.00",
    "Wall clock": "33.60",
    "Paper tray": "14.95",
    "Label printer": "96.00",
    "Document shredder": "139.90",
}
COUNTRIES = ("AT", "DE", "ES", "FR", "IT", "NL")
ORDER_STATUSES = ("placed", *["shipped"] * 2, *["delivered"] * 3, "cancelled")
METHODS = ("card", "card", "transfer", "wallet")
SUBJECTS = (
    "Parcel arrived damaged",
    "Wrong colour delivered",
    "Invoice needs another address",
    "Where is my order?",
    "Please change the phone number",
    "One item is missing",
    "The drawer does not close",
    "Charged twice?",
)

Row: TypeAlias = dict[str, str]


@dataclass(frozen=True, slots=True)
class Shop:
    """Every table of the sample shop, in the order of its files."""

    products: list[Row]
    customers: list[Row]
    orders: list[Row]
    payments: list[Row]
    tickets: list[Row]

    def files(self) -> dict[str, list[Row]]:
        """Return the rows by file name."""
        return {f"{name}.csv": getattr(self, name) for name in self.__dataclass_fields__}


def build(seed: int = SEED) -> Shop:
    """Return the whole shop for one seed."""
    dice = random.Random(seed)
    products = [
        {"sku": f"sku_{n:02}", "name": name, "price": price}
        for n, (name, price) in enumerate(PRODUCTS.items(), start=1)
    ]
    customers = [_customer(dice, n) for n in range(1, 101)]
    orders = [_order(dice, n, customers, products) for n in range(1, 361)]
    payments = [_payment(dice, n, order) for n, order in enumerate(orders, start=1)]
    tickets = [_ticket(dice, n, orders) for n in range(1, 181)]
    return Shop(products, customers, orders, payments, tickets)


def write(shop: Shop, folder: Path = HERE) -> None:
    """Write one CSV file per table."""
    for name, rows in shop.files().items():
        _write_table(folder / name, rows)


def _customer(dice: random.Random, n: int) -> Row:
    return {
        "id": f"cus_{n:03}",
        "name": f"Sample Customer {n:03}",
        "email": f"customer{n:03}@example.com",
        "phone": f"+1 555 01{n - 1:02}",
        "country": dice.choice(COUNTRIES),
        "tier": dice.choice(("standard", "standard", "standard", "business")),
        "status": "blocked" if n % 25 == 0 else "active",
    }


def _order(dice: random.Random, n: int, customers: list[Row], products: list[Row]) -> Row:
    product = dice.choice(products)
    quantity = dice.choice((1, 1, 1, 2, 2, 3, 4))
    placed = FIRST_ORDER + timedelta(hours=6 * n, minutes=dice.randrange(360))
    return {
        "id": f"ord_{n:04}",
        "customer_id": dice.choice(customers)["id"],
        "sku": product["sku"],
        "quantity": str(quantity),
        "total": str(Decimal(product["price"]) * quantity),
        "status": dice.choice(ORDER_STATUSES),
        "placed_at": placed.isoformat(),
    }


def _payment(dice: random.Random, n: int, order: Row) -> Row:
    status = {"placed": "authorized", "cancelled": "voided"}.get(order["status"], "captured")
    return {
        "id": f"pay_{n:04}",
        "order_id": order["id"],
        "amount": order["total"],
        "refunded": "0.00",
        "status": status,
        "method": dice.choice(METHODS),
    }


def _ticket(dice: random.Random, n: int, orders: list[Row]) -> Row:
    order = dice.choice(orders)
    opened = datetime.fromisoformat(order["placed_at"]) + timedelta(hours=dice.randrange(24, 200))
    return {
        "id": f"tic_{n:04}",
        "customer_id": order["customer_id"],
        "order_id": order["id"],
        "subject": dice.choice(SUBJECTS),
        "priority": dice.choice(("low", "normal", "normal", "high")),
        "status": dice.choice(("open", "open", "waiting", "closed")),
        "opened_at": opened.isoformat(),
    }


def _write_table(path: Path, rows: Iterable[Row]) -> None:
    table = list(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    write(build())
