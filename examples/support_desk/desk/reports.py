"""A slow report that says how far it is, and a status that anybody may read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from capgate import Context, Library, requires
from examples.support_desk.desk.rows import Priority
from examples.support_desk.desk.world import Desk

reports = Library("reports", "1.0")
PAGE_SIZE: Final = 40


@dataclass(frozen=True, slots=True)
class Backlog:
    """Tickets that wait, by priority."""

    priority: Priority
    waiting: int
    by_subject: dict[str, int]


@dataclass(frozen=True, slots=True)
class Status:
    """How large the shop is today."""

    orders: int
    open_tickets: int


@reports.capability(
    "reports.backlog",
    side_effect="read",
    risk="low",
    expose={"direct", "http", "cli", "workflow"},
    access=requires("reports:read"),
    timeout=10.0,
)
async def backlog(
    priority: Annotated[Priority, Field(description="Tickets of this priority.")],
    ctx: Context[Desk],
) -> Backlog:
    """Count waiting tickets, page by page; slow, so it reports progress and can be stopped."""
    everything = tuple(ctx.deps.store.tables.tickets.values())
    pages = -(-len(everything) // PAGE_SIZE)
    subjects: Counter[str] = Counter()
    for page in range(pages):
        tickets = await ctx.deps.archive.read(everything, page, PAGE_SIZE)
        wanted = (t for t in tickets if t.priority == priority and t.status != "closed")
        subjects.update(ticket.subject for ticket in wanted)
        await ctx.progress(page + 1, pages, "reading the archive")
    return Backlog(priority, subjects.total(), dict(sorted(subjects.items())))


@reports.capability(
    "shop.status",
    side_effect="read",
    risk="low",
    expose={"direct", "tools", "mcp", "http", "cli"},
    access="public",
)
async def status(ctx: Context[Desk]) -> Status:
    """Say how much the shop holds."""
    shop = ctx.deps.store.tables
    waiting = sum(ticket.status == "open" for ticket in shop.tickets.values())
    return Status(len(shop.orders), waiting)
