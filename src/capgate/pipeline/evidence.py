"""Audit events of one engine's calls: what happened, never with what.

Events are built only while somebody listens. Inputs, outputs and credentials never get here.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from capgate.audit import AuditEvent, AuditFailure
from capgate.call import SystemClock
from capgate.errors import CapabilityError, ErrorCode
from capgate.pipeline.weaving import Piece

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from capgate.audit import Auditor
    from capgate.call import Call, Clock
    from capgate.errors import JSON

Emit: TypeAlias = "Callable[[AuditEvent], Awaitable[None] | None]"

NO_DATA: Final[Mapping[str, JSON]] = MappingProxyType({})
FIRST: Final[Mapping[str, JSON]] = MappingProxyType({"attempt": 1})
"""The data of `capability.started`, where no approval came before."""
_EVENT: Final = """\
event = new_tuple(
    AuditEvent,
    (
        "{kind}",
        wall_clock(),
        call.surface,
        call.actor.ref,
        call.execution_id,
        call.capability_id,
        call.correlation_id,
        call.parent_execution_id,
        call.input_hash,
        {data},
    ),
)
sink = auditor.sole
if sink is None:
    noted = auditor.emit(event)
else:
    try:
        noted = sink(event)
    except BaseException as error:
        noted = auditor.failed(error)
    if noted is not None:
        noted = auditor.kept(event, noted)
"""
_new: Final[Callable[[type[AuditEvent], tuple[object, ...]], AuditEvent]] = vars(tuple)["__new__"]


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

    def note(
        self,
        kind: str,
        call: Call,
        data: Mapping[str, JSON] = NO_DATA,
        *,
        emit: Emit | None = None,
    ) -> Awaitable[None] | None:
        """Record one event of `call`, best effort; awaitable only when a sink has to be awaited.

        Ask `active` first: with no sink there is nothing to build.

        Args:
            kind: The event's type.
            call: Whose event it is.
            data: Deep-frozen.
            emit: How it is handed over; None: best effort.
        """
        now, emit = self._now, emit or self._emit
        # The constructor of an event is for others: it costs more than the event.
        return emit(
            _new(
                AuditEvent,
                (
                    kind,
                    now(),
                    call.surface,
                    call.actor.ref,
                    call.execution_id,
                    call.capability_id,
                    call.correlation_id,
                    call.parent_execution_id,
                    call.input_hash,
                    data,
                ),
            )
        )

    def piece(self, kind: str, data: str, told: str = "", **names: object) -> Piece:
        """Return the lines of `note`, leaving `noted`; none while nobody listens.

        Args:
            kind: The event's type.
            data: An expression for its data.
            told: The lines that see to what must be awaited.
            **names: What the expression's names stand for.
        """
        if not self.active:
            return Piece("", {})
        names |= {"AuditEvent": AuditEvent, "new_tuple": _new, "auditor": self._auditor}
        names["wall_clock"] = self._now
        return Piece(_event(kind, data, told), names)

    @property
    def immediate(self) -> bool:
        """Whether recording never takes an await: nobody listens, or only synchronous sinks."""
        return not self.strict and self._auditor.immediate

    def start_strictly(
        self, kind: str, call: Call, data: Mapping[str, JSON]
    ) -> Awaitable[None] | None:
        """Record an event without which the call may not go on.

        Raises:
            CapabilityError: From the awaitable, AUDIT_UNAVAILABLE.
        """
        return self.note(kind, call, data, emit=self._insist)

    async def _insist(self, event: AuditEvent, kept_by: object = None) -> None:
        try:
            await self._auditor.emit_strict(event, kept_by)
        except AuditFailure as failure:
            raise CapabilityError(ErrorCode.AUDIT_UNAVAILABLE) from failure

    def event(self, kind: str, call: Call, data: Mapping[str, JSON]) -> AuditEvent:
        """Return one event of `call` that is to be handed over later."""
        built: list[AuditEvent] = []
        self.note(kind, call, data, emit=built.append)
        return built[0]

    def hand_start(self, event: AuditEvent, kept_by: object) -> Awaitable[None] | None:
        """Hand the event of a start to every sink but the one that has kept it.

        Raises:
            CapabilityError: From the awaitable, AUDIT_UNAVAILABLE, where the audit is strict.
        """
        if self.strict:
            return self._insist(event, kept_by)
        return self._auditor.emit_but(event, kept_by)

    async def flush(self, sink: object) -> None:
        """Wait until one sink has been given what was recorded before; see `Auditor.flush`."""
        await self._auditor.flush(sink)

    def tell_strictly(
        self, kind: str, call: Call, data: Mapping[str, JSON]
    ) -> Awaitable[None] | None:
        """Record an event and wait for every sink; a failure is reported by the auditor."""
        return self.note(kind, call, data, emit=self._wait)

    async def _wait(self, event: AuditEvent) -> None:
        with suppress(AuditFailure):
            await self._auditor.emit_strict(event)

    def note_at_exit(self, kind: str, call: Call, data: Mapping[str, JSON]) -> None:
        """Record one event with the sinks that need no await: the coroutine is being closed."""
        if self.active:
            self.note(kind, call, data, emit=self._auditor.emit_sync)


@cache
def _event(kind: str, data: str, told: str) -> str:
    return _EVENT.format(kind=kind, data=data) + told


def frozen(**data: JSON) -> Mapping[str, JSON]:
    """Return event data that nobody can change."""
    return MappingProxyType(data)
