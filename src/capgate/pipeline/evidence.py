"""Audit events of one engine's calls: what happened, never with what.

Events are built only while somebody listens. Inputs, outputs and credentials never get here.
"""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from capgate.audit import AuditEvent, AuditFailure
from capgate.errors import CapabilityError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from capgate.audit import Auditor
    from capgate.call import Call, Clock
    from capgate.errors import JSON

NO_DATA: Final[Mapping[str, JSON]] = MappingProxyType({})


_tuple: Final = tuple.__new__


class Evidence:
    """Builds the events of calls and hands them to the auditor."""

    __slots__ = ("_auditor", "_emit", "_now", "active", "strict")

    def __init__(self, auditor: Auditor, clock: Clock, *, strict: bool) -> None:
        """Record through `auditor`."""
        self._auditor = auditor
        self._emit = auditor.emit
        self._now = clock.now
        self.active = auditor.active
        self.strict = strict

    def event(self, kind: str, call: Call, data: Mapping[str, JSON]) -> AuditEvent:
        """Build one event of `call`."""
        # Straight from the tuple: three events a call, and nothing to convert.
        return _tuple(
            AuditEvent,
            (
                kind,
                self._now(),
                call.surface,
                call.actor.ref,
                call.execution_id,
                call.capability_id,
                call.correlation_id,
                call.request.parent_execution_id,
                call.input_hash,
                data,
            ),
        )

    def note(
        self, kind: str, call: Call, data: Mapping[str, JSON] = NO_DATA
    ) -> Awaitable[None] | None:
        """Record one event, best effort; awaitable only when a sink has to be awaited."""
        if not self.active or call.dry_run:
            return None
        return self._emit(self.event(kind, call, data))

    async def start_strictly(self, call: Call, data: Mapping[str, JSON]) -> None:
        """Record `capability.started` before the handler may run.

        Raises:
            CapabilityError: AUDIT_UNAVAILABLE.
        """
        try:
            await self._auditor.emit_strict(self.event("capability.started", call, data))
        except AuditFailure as failure:
            raise CapabilityError(ErrorCode.AUDIT_UNAVAILABLE) from failure

    async def tell_strictly(self, kind: str, call: Call, data: Mapping[str, JSON]) -> None:
        """Record a terminal event and wait for every sink; a failure is reported by the auditor."""
        with suppress(AuditFailure):
            await self._auditor.emit_strict(self.event(kind, call, data))

    def note_at_exit(self, kind: str, call: Call, data: Mapping[str, JSON]) -> None:
        """Record one event with the sinks that need no await: the coroutine is being closed."""
        if self.active and not call.dry_run:
            self._auditor.emit_sync(self.event(kind, call, data))


def frozen(**data: JSON) -> Mapping[str, JSON]:
    """Return event data that nobody can change."""
    return MappingProxyType(data)
