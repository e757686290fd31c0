"""Audit events of one engine's calls: what happened, never with what.

Events are built only while somebody listens. Inputs, outputs and credentials never get here.
"""

from __future__ import annotations

import time
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from capgate.audit import AuditEvent, AuditFailure, EventDraft
from capgate.call import SystemClock
from capgate.errors import CapabilityError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from capgate.audit import Auditor
    from capgate.call import Call, Clock
    from capgate.errors import JSON

NO_DATA: Final[Mapping[str, JSON]] = MappingProxyType({})


class Evidence:
    """Builds the events of calls and hands them to the auditor."""

    __slots__ = ("_auditor", "_emit", "_now", "active", "strict")

    active: bool
    strict: bool

    def __init__(self, auditor: Auditor, clock: Clock, *, strict: bool) -> None:
        """Record through `auditor`."""
        self._auditor = auditor
        self._emit = auditor.emit
        # The system's clock is read as plain seconds.
        plain = type(cast("object", clock)) is SystemClock
        self._now = time.time if plain else clock.now
        self.active = auditor.active
        self.strict = strict

    def event(self, kind: str, call: Call, data: Mapping[str, JSON]) -> AuditEvent:
        """Build one event of `call`."""
        draft = EventDraft()
        draft.type = kind
        draft.at = self._now()
        draft.surface = call.surface
        draft.actor = call.actor.ref
        draft.execution_id = call.execution_id
        draft.capability_id = call.capability_id
        draft.correlation_id = call.correlation_id
        draft.parent_execution_id = call.parent_execution_id
        draft.input_hash = call.input_hash
        draft.data = data
        # Sealed: the draft is the immutable event from now on.
        draft.__class__ = AuditEvent
        return cast("AuditEvent", draft)

    def note(
        self, kind: str, call: Call, data: Mapping[str, JSON] = NO_DATA
    ) -> Awaitable[None] | None:
        """Record one event, best effort; awaitable only when a sink has to be awaited.

        Ask `active` first: with no sink there is nothing to build.
        """
        return self._emit(self.event(kind, call, data))

    @property
    def immediate(self) -> bool:
        """Whether recording never takes an await: nobody listens, or only synchronous sinks."""
        return not self.strict and self._auditor.immediate

    def start(self, call: Call) -> Awaitable[None] | None:
        """Record `capability.started`; awaitable where a sink has to be awaited.

        Raises:
            CapabilityError: From the awaitable, AUDIT_UNAVAILABLE with a strict audit.
        """
        approval = call.approval
        data = _FIRST if approval is None else frozen(attempt=1, approval_id=approval.id)
        event = self.event("capability.started", call, data)
        return self._start_strictly(event) if self.strict else self._emit(event)

    async def _start_strictly(self, event: AuditEvent) -> None:
        try:
            await self._auditor.emit_strict(event)
        except AuditFailure as failure:
            raise CapabilityError(ErrorCode.AUDIT_UNAVAILABLE) from failure

    async def tell_strictly(self, kind: str, call: Call, data: Mapping[str, JSON]) -> None:
        """Record a terminal event and wait for every sink; a failure is reported by the auditor."""
        with suppress(AuditFailure):
            await self._auditor.emit_strict(self.event(kind, call, data))

    def note_at_exit(self, kind: str, call: Call, data: Mapping[str, JSON]) -> None:
        """Record one event with the sinks that need no await: the coroutine is being closed."""
        if self.active:
            self._auditor.emit_sync(self.event(kind, call, data))


_FIRST: Final[Mapping[str, JSON]] = MappingProxyType({"attempt": 1})


def frozen(**data: JSON) -> Mapping[str, JSON]:
    """Return event data that nobody can change."""
    return MappingProxyType(data)
