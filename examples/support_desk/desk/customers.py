"""Capabilities about customers; what is private is masked before it leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from capgate import ApprovalRule, Context, Library, Redact, requires
from capgate.errors import JSON
from examples.support_desk.desk.errors import NotFoundError
from examples.support_desk.desk.fields import CustomerId, Reason
from examples.support_desk.desk.policies import own_record_or_staff, privacy_office
from examples.support_desk.desk.rows import Customer
from examples.support_desk.desk.world import Desk

customers = Library("customers", "1.0")


@dataclass(frozen=True, slots=True)
class Erasure:
    """The proof that a customer was forgotten."""

    customer_id: str
    agreed_by: tuple[str, ...]


def mask_email(address: str) -> str:
    """Keep the first letter and the domain."""
    name, _, domain = address.partition("@")
    return f"{name[:1]}***@{domain}"


def mask_phone(number: str) -> str:
    """Keep the last two digits."""
    return f"*** {number[-2:]}"


def mask_customer(customer: Customer) -> Customer:
    """Hide what is private in an output."""
    email, phone = mask_email(customer.email), mask_phone(customer.phone)
    return replace(customer, email=email, phone=phone)


def mask_contact(shown: JSON) -> JSON:
    """Hide what is private in the input that approvers are shown."""
    return {**shown, "email": mask_email(shown["email"]), "phone": mask_phone(shown["phone"])}


@customers.capability(
    "customers.get",
    side_effect="read",
    risk="medium",
    expose={"direct", "tools", "mcp", "http"},
    access=requires("customers:read"),
    redact=Redact(output=mask_customer),
    errors=[NotFoundError],
)
async def get_customer(customer_id: CustomerId, ctx: Context[Desk]) -> Customer:
    """Return one customer, with masked e-mail and phone."""
    return ctx.deps.store.tables.customers[customer_id]


@customers.capability(
    "customers.update_contact",
    side_effect="write",
    risk="medium",
    expose={"direct", "tools", "mcp", "http"},
    access=own_record_or_staff,
    redact=Redact(output=mask_customer, approval_input=mask_contact),
    errors=[NotFoundError],
)
async def update_contact(
    customer_id: CustomerId,
    email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$", description="The new address.")],
    phone: Annotated[str, Field(min_length=5, max_length=30, description="The new number.")],
    ctx: Context[Desk],
) -> Customer:
    """Change how a customer is reached."""
    with ctx.deps.store.transaction() as shop:
        known = shop.customers[customer_id]
        return shop.customers.put(customer_id, replace(known, email=email, phone=phone))


@customers.capability(
    "customers.erase",
    side_effect="destructive",
    risk="critical",
    expose={"direct", "http"},
    access=requires("privacy:erase"),
    policies=[privacy_office],
    approval=ApprovalRule(
        type="privacy",
        reason="Two more privacy officers must agree.",
        expires_in=timedelta(hours=1),
        approvers=requires("privacy:erase"),
        quorum=2,
    ),
    errors=[NotFoundError],
    tags={"office-hours"},
)
async def erase_customer(customer_id: CustomerId, reason: Reason, ctx: Context[Desk]) -> Erasure:
    """Forget a customer's name, e-mail and phone."""
    with ctx.deps.store.transaction() as shop:
        known = shop.customers[customer_id]
        blank = replace(known, name="(erased)", email="", phone="", status="erased")
        shop.customers.put(customer_id, blank)
    agreed = () if ctx.approval is None else tuple(a.id for a in ctx.approval.approvers())
    return Erasure(customer_id, agreed)
