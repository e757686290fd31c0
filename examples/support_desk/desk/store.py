"""The shop's store: tables in memory, loaded from CSV, changed by transactions only.

No rule of the business lives here, and nothing here knows capgate.
"""

from __future__ import annotations

import csv
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from pydantic import TypeAdapter

from examples.support_desk.desk.rows import Customer, Order, Payment, Product, Ticket

DATA: Final = Path(__file__).parent.parent / "data"
Row = TypeVar("Row")


class RowNotFoundError(KeyError):
    """A table holds no row with this key."""


class Table(dict[str, Row]):
    """Rows by their key."""

    def __missing__(self, key: str) -> Row:
        """Refuse an unknown key in the store's own words.

        Raises:
            RowNotFoundError: Always; it is only called for what is missing.
        """
        raise RowNotFoundError(key)

    def put(self, key: str, row: Row) -> Row:
        """Insert or replace one row and return it."""
        self[key] = row
        return row


@dataclass(frozen=True, slots=True)
class Tables:
    """One consistent state of the whole shop."""

    products: Table[Product]
    customers: Table[Customer]
    orders: Table[Order]
    payments: Table[Payment]
    tickets: Table[Ticket]

    def payment_of(self, order_id: str) -> Payment:
        """Return the payment of an order.

        Raises:
            RowNotFoundError: The order has none.
        """
        for payment in self.payments.values():
            if payment.order_id == order_id:
                return payment
        raise RowNotFoundError(order_id)

    def draft(self) -> Tables:
        """Return a state to change; rows are immutable, so copying the tables is enough."""
        return Tables(
            Table(self.products),
            Table(self.customers),
            Table(self.orders),
            Table(self.payments),
            Table(self.tickets),
        )


class ShopStore:
    """The shop's one current state; readers never see half a change."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        # Synchronous handlers run in worker threads, so two writers can meet.
        self._writing = threading.Lock()

    @classmethod
    def load(cls, folder: Path = DATA) -> ShopStore:
        """Read the shop from one folder of CSV files."""
        return cls(
            Tables(
                _table(folder, "products", Product, key="sku"),
                _table(folder, "customers", Customer),
                _table(folder, "orders", Order),
                _table(folder, "payments", Payment),
                _table(folder, "tickets", Ticket),
            )
        )

    @property
    def tables(self) -> Tables:
        """The current state, to read."""
        return self._tables

    @contextmanager
    def transaction(self) -> Generator[Tables, None, None]:
        """Change a draft; it becomes current when the block ends without an exception."""
        with self._writing:
            draft = self._tables.draft()
            yield draft
            self._tables = draft


def _table(folder: Path, name: str, kind: type[Row], *, key: str = "id") -> Table[Row]:
    row: TypeAdapter[Row] = TypeAdapter(kind)
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = [row.validate_python(cells) for cells in csv.DictReader(file)]
    return Table({str(getattr(each, key)): each for each in rows})
