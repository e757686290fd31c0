"""Capabilities about tickets; the last one is described by a JSON Schema document."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator, Field, PlainSerializer

from capgate import Context, Library, requires
from capgate.errors import JSON
from examples.support_desk.desk.errors import NotFoundError
from examples.support_desk.desk.fields import OrderId, TicketId
from examples.support_desk.desk.rows import Priority, Ticket
from examples.support_desk.desk.world import Desk

tickets = Library("tickets", "1.0")


def fingerprint(content: bytes) -> str:
    """Return what stands for a file wherever inputs are written down."""
    return hashlib.sha256(content).hexdigest()


# The JSON form of a file is its fingerprint only. Such an input can run, but the engine refuses to
# hold it for an approval: it could not give the handler what was approved.
Attachment: TypeAlias = Annotated[
    bytes,
    BeforeValidator(base64.b64decode),
    PlainSerializer(fingerprint),
    Field(max_length=65536, description="The file, as base64."),
]

ANNOTATION: Final[dict[str, JSON]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "ticket_id": {"type": "string", "pattern": "^tic_[0-9]{4}$"},
        "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 5},
    },
    "required": ["ticket_id", "labels"],
    "additionalProperties": False,
}
ANNOTATED: Final[dict[str, JSON]] = {
    "type": "object",
    "properties": {"ticket_id": {"type": "string"}, "labels": {"type": "array", "minItems": 1}},
    "required": ["ticket_id", "labels"],
}


@dataclass(frozen=True, slots=True)
class Attached:
    """A stored file, by its fingerprint."""

    ticket_id: str
    size: int
    sha256: str


@tickets.capability(
    "tickets.open",
    side_effect="write",
    risk="low",
    expose={"direct", "tools", "mcp", "http", "cli"},
    access=requires("tickets:write"),
    errors=[NotFoundError],
)
async def open_ticket(
    order_id: OrderId,
    subject: Annotated[str, Field(min_length=3, max_length=120, description="One line.")],
    ctx: Context[Desk],
    priority: Annotated[Priority, Field(description="How urgent it is.")] = "normal",
) -> Ticket:
    """Open a ticket about an order."""
    with ctx.deps.store.transaction() as shop:
        order = shop.orders[order_id]
        number = len(shop.tickets) + 1
        ticket = Ticket(
            id=f"tic_{number:04}",
            customer_id=order.customer_id,
            order_id=order_id,
            subject=subject,
            priority=priority,
            status="open",
            opened_at=ctx.deps.clock.now(),
        )
        return shop.tickets.put(ticket.id, ticket)


@tickets.capability(
    "tickets.attach",
    side_effect="write",
    risk="low",
    expose={"direct", "tools", "http"},
    access=requires("tickets:write"),
    errors=[NotFoundError],
)
async def attach(ticket_id: TicketId, content: Attachment, ctx: Context[Desk]) -> Attached:
    """Attach a file to a ticket."""
    ticket = ctx.deps.store.tables.tickets[ticket_id]
    return Attached(ticket.id, len(content), fingerprint(content))


@tickets.capability(
    "tickets.annotate",
    side_effect="none",
    risk="low",
    expose={"direct", "tools", "mcp"},
    access="authenticated",
    input_schema=ANNOTATION,
    output_schema=ANNOTATED,
)
async def annotate(ticket_id: str, labels: list[str]) -> JSON:
    """Tidy labels for a ticket: lower case, no doubles, sorted."""
    tidy = sorted({label.strip().lower() for label in labels} - {""})
    return {"ticket_id": ticket_id, "labels": tidy}
