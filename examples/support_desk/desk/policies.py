"""Who may do what at the desk, beyond a permission: the rules, one function each."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Final

from capgate import (
    AccessRequest,
    Decision,
    PolicyRequest,
    allow,
    deny,
    hide,
    policy,
    require_approval,
    requires,
)
from examples.support_desk.desk.store import Tables
from examples.support_desk.desk.world import Desk

REFUND_LIMIT: Final = Decimal(100)
FRAUD_LIMIT: Final = 90


@policy("supervised-agents")
def supervised_agents(request: PolicyRequest[Desk]) -> Decision:
    """What an automation wants to change, a person confirms."""
    if request.actor.kind != "automation" or request.capability.side_effect in {"none", "read"}:
        return allow()
    return require_approval(
        "A person confirms what an automation changes.",
        type="supervision",
        approvers=requires("agents:supervise"),
    )


@policy("own-countries")
def own_countries(request: PolicyRequest[Desk]) -> Decision:
    """An agent with assigned countries works on customers of those only."""
    countries = request.actor.attributes.get("countries")
    country = _country(request)
    if not isinstance(countries, list) or country is None or country in countries:
        return allow()
    return deny("This customer belongs to another desk.", reason="other-country")


@policy("blocked-customers")
def blocked_customers(request: PolicyRequest[Desk]) -> Decision:
    """Nobody pays out to a customer who is blocked."""
    customer = request.deps.store.tables.customers.get(_customer_id(request) or "")
    if customer is not None and customer.status == "blocked":
        return deny("This customer's account is blocked.", reason="customer-blocked")
    return allow()


@policy("refund-limit")
def refund_limit(request: PolicyRequest[Desk]) -> Decision:
    """A refund above the limit needs someone who may approve refunds."""
    if request.arguments["amount"] <= REFUND_LIMIT:
        return allow(limit=str(REFUND_LIMIT))
    return require_approval(
        f"A refund above {REFUND_LIMIT} euro needs approval.",
        type="refund",
        expires_in=timedelta(minutes=30),
        approvers=requires("refunds:approve"),
    )


@policy("fraud-screen")
async def fraud_screen(request: PolicyRequest[Desk]) -> Decision:
    """Refuse what looks like fraud; a silent bureau refuses too, since policies fail closed."""
    order = request.deps.store.tables.orders.get(request.arguments["order_id"])
    score = 0 if order is None else await request.deps.scores.of(order)
    if score >= FRAUD_LIMIT:
        return deny("This refund was declined.", reason=f"fraud-score-{score}")
    return allow(score=score)


@policy("still-refundable", phases={"execution"})
def still_refundable(request: PolicyRequest[Desk]) -> Decision:
    """Look again after the wait: another refund may have come first."""
    if request.approval is None:
        return allow()
    payment = request.deps.store.tables.payment_of(request.arguments["order_id"])
    if payment.refundable < request.arguments["amount"]:
        return deny("The money has been given back meanwhile.", reason="refunded-meanwhile")
    return allow()


@policy("privacy-office", phases={"discovery"})
def privacy_office(request: PolicyRequest[Desk]) -> Decision:
    """Nobody else even learns that this exists."""
    return allow() if "privacy:erase" in request.actor.permissions else hide()


def own_record_or_staff(request: AccessRequest) -> bool:
    """Permit staff, and customers about themselves."""
    if "customers:write" in request.actor.permissions:
        return True
    own = request.actor.attributes.get("customer_id")
    return bool(own == request.arguments["customer_id"])


def not_suspended(request: AccessRequest) -> bool:
    """Refuse whoever is suspended, whatever the capability permits."""
    return request.actor.attributes.get("suspended") is not True


def _country(request: PolicyRequest[Desk]) -> str | None:
    customer = request.deps.store.tables.customers.get(_customer_id(request) or "")
    return None if customer is None else customer.country


def _customer_id(request: PolicyRequest[Desk]) -> str | None:
    tables: Tables = request.deps.store.tables
    order = tables.orders.get(request.arguments.get("order_id", ""))
    return order.customer_id if order else request.arguments.get("customer_id")
