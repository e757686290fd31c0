"""What earlier runs left in the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from capgate.approvals import ApprovalRecord
from capgate.stores import Store

SHOWN: Final = 6
_COLOURS: Final = {"pending": "yellow", "approved": "green", "consumed": "dim"}


async def earlier_approvals(url: str) -> list[ApprovalRecord]:
    """Return every approval in the database at `url`, oldest first."""
    found: list[ApprovalRecord] = []
    async with Store(url) as store:
        while page := await store.approvals.find(after=found[-1].id if found else None):
            found.extend(page)
    return found


def earlier_board(records: Sequence[ApprovalRecord]) -> RenderableType:
    """Return how many there are by status, and the latest of them."""
    if not records:
        return Text("No approvals of earlier runs; the next run shows those of this one.", "dim")
    counts = Counter(record.status.value for record in records)
    words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    title = Text.assemble(("Approvals of earlier runs  ", "bold"), f"{len(records)}: {words}")
    board = Table.grid(padding=(0, 2))
    for record in records[-SHOWN:]:
        status = record.status.value
        board.add_row(
            record.id,
            record.capability_id,
            Text(status, _COLOURS.get(status, "red")),
            f"asked by {record.actor.id}",
        )
    return Group(title, board)
