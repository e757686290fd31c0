"""The chain of audit records in a database: appending to it, and cutting it.

How records are linked is in `capgate.audit`. Reading a chain is in `reading`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, cast

from capgate.audit import Head, link
from capgate.stores.text import column
from capgate.stores.unfinished import END

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from capgate.errors import JSON
    from capgate.stores.database import Database, Db

_HEAD: Final = "SELECT seq, hash FROM capgate_audit_heads WHERE stream = ?"
_APPEND: Final = "INSERT INTO capgate_audit (stream, seq, hash, record) VALUES (?, ?, ?, ?)"
_MOVE: Final = """
    INSERT INTO capgate_audit_heads (stream, seq, hash) VALUES (?, ?, ?)
    ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, hash = excluded.hash"""
_CUT: Final = "DELETE FROM capgate_audit WHERE stream = ? AND seq <= ?"
_ENDS: Final = frozenset(
    {
        "capability.completed",
        "capability.failed",
        "capability.cancelled",
        "capability.denied",
    }
)


class Chain:
    """One stream of records in one database.

    Args:
        database: Where it is kept.
        stream: Its name; chains do not touch one another.
    """

    __slots__ = ("database", "stream")

    def __init__(self, database: Database, stream: str) -> None:
        """See the class."""
        self.database: Database = database
        self.stream: str = column(stream)

    def take_turn(self, db: Db) -> None:
        """Keep other writers of the chain waiting until the transaction ends.

        Whoever locks other rows too does this first: see `Database.lock_order`.
        """
        if self.database.lock_order is not None:
            db.execute(self.database.lock_order, (f"capgate_audit {self.stream}",))

    def append(self, db: Db, records: Iterable[Mapping[str, JSON]]) -> None:
        """Add records, in a transaction that has taken its turn."""
        found = db.execute(_HEAD, (self.stream,)).fetchone()
        head = Head() if found is None else Head(*found)
        for record in records:
            linked = link(head, record)
            head = Head(linked["seq"], linked["hash"])
            db.execute(_APPEND, (self.stream, head.seq, head.hash, json.dumps(linked)))
            ended = _ended(linked)
            if ended is not None:
                db.execute(END, (column(ended),))
        db.execute(_MOVE, (self.stream, head.seq, head.hash))

    def cut(self, db: Db, last: int) -> int:
        """Remove all records up to this number and return how many there were."""
        return db.execute(_CUT, (self.stream, last)).rowcount


def _ended(record: Mapping[str, JSON]) -> str | None:
    """Return the execution that ends with this event; others than the engine may write events."""
    ends = record["type"] in _ENDS
    if record["type"] == "capability.approval_requested" and isinstance(record["data"], dict):
        ends = cast("dict[str, JSON]", record["data"]).get("suspended") is True
    execution_id = record["execution_id"]
    return execution_id if ends and isinstance(execution_id, str) else None
