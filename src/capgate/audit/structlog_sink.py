"""The sink that writes events to the application's own log.

Here: the log entry's shape. Not here: structlog's configuration, which is the application's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import structlog

if TYPE_CHECKING:
    from capgate.audit.event import AuditEvent
    from capgate.errors import JSON


class InfoLogger(Protocol):
    """The one method that is used of a structlog logger."""

    def info(self, event: str, /, **fields: JSON) -> object:
        """Write one entry."""
        ...


class StructlogAudit:
    """Writes each event as one `info` entry named by the event's type.

    The event's own time is `occurred_at`: processors of the application own `timestamp`.

    Args:
        logger: A structlog logger; `structlog.get_logger("capgate.audit")` when not given.
    """

    __slots__ = ("_log",)

    def __init__(self, logger: InfoLogger | None = None) -> None:
        self._log: InfoLogger = logger or structlog.get_logger("capgate.audit")

    def __call__(self, event: AuditEvent) -> None:
        """Write `event` to the log."""
        fields = event.to_dict()
        fields["occurred_at"] = fields.pop("timestamp")
        self._log.info(fields.pop("type"), **fields)
