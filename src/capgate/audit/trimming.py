"""Retention: what may be removed from the beginning of a chain, and the record that vouches for it.

Here: the rules and the event. Not here: removing, which each store of records does in its own way.
"""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from capgate.audit.event import AuditEvent
from capgate.call import check_operator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capgate.call import Actor
    from capgate.errors import JSON

TRIMMED: Final = "audit.trimmed"
"""The event's type; its data are the `seq` and the `hash` of the last record removed."""


def trimming_event(seq: int, hash_: str, by: Actor) -> AuditEvent:
    """Return the event that vouches for the removal of all records up to this one."""
    data: Mapping[str, JSON] = MappingProxyType({"seq": seq, "hash": hash_})
    return AuditEvent(TRIMMED, datetime.now(UTC), actor=by.ref, data=data)


def check_trimming(before: object, by: object) -> None:
    """Refuse what names no time or nobody.

    Raises:
        TypeError, ValueError: An argument that cannot be.
    """
    if not isinstance(before, datetime):
        raise TypeError(f"before must be a datetime, got {type(before).__name__}")
    if before.utcoffset() is None:
        raise ValueError("before has no time zone")
    check_operator(by, "trim")


def recorded_before(record: Mapping[str, JSON], before: datetime) -> bool:
    """Tell whether a record says that it is older than a time."""
    try:
        return datetime.fromisoformat(str(record.get("timestamp"))) < before
    except (ValueError, TypeError):
        return False
