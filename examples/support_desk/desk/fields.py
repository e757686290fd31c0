"""The input fields that several capabilities share, each with its rule and its description."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, TypeAlias

from pydantic import Field

OrderId: TypeAlias = Annotated[
    str, Field(pattern=r"^ord_\d{4}$", description="The order, as ord_0042.")
]
CustomerId: TypeAlias = Annotated[
    str, Field(pattern=r"^cus_\d{3}$", description="The customer, as cus_042.")
]
TicketId: TypeAlias = Annotated[
    str, Field(pattern=r"^tic_\d{4}$", description="The ticket, as tic_0042.")
]
Money: TypeAlias = Annotated[
    Decimal, Field(gt=0, max_digits=10, decimal_places=2, description="An amount in euro.")
]
Reason: TypeAlias = Annotated[
    str, Field(min_length=3, max_length=200, description="Why, for the record.")
]
