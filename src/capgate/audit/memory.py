"""The sink that keeps events in memory, for tests and trials.

Here: keeping and looking. Not here: a bound or durability; a service wants another sink.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from capgate.audit.event import AuditEvent


class MemoryAudit:
    """Keeps every event until `clear`; unbounded, so not for a long-lived service."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        self._events: list[AuditEvent] = []

    def __call__(self, event: AuditEvent) -> None:
        """Keep `event`."""
        self._events.append(event)

    @property
    def events(self) -> list[AuditEvent]:
        """A copy of the events so far, oldest first."""
        return self._events.copy()

    def of_type(self, event_type: str) -> list[AuditEvent]:
        """Return the events of one type, oldest first."""
        return [event for event in self._events if event.type == event_type]

    def clear(self) -> None:
        """Forget every event."""
        self._events.clear()
