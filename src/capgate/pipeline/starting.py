"""That a handler starts: told to every sink, and kept together with what the call spends.

Where one database keeps the audit, the approvals and the keys, the event stands there in the
transaction that spends the approval, or marks the key, before the handler is entered. After a
crash nobody has to guess what was begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

from capgate.errors import CapabilityError, ErrorCode
from capgate.pipeline.evidence import FIRST, frozen
from capgate.pipeline.key_store import ask_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from capgate.approvals import ApprovalRecord
    from capgate.audit import AuditEvent
    from capgate.call import Call
    from capgate.errors import JSON
    from capgate.pipeline.runtime import Runtime

Tell: TypeAlias = "Callable[[str, Call, Mapping[str, JSON]], Awaitable[None] | None]"


@runtime_checkable
class FencedSink(Protocol):
    """A sink on the database that keeps approvals and keys too."""

    def __call__(self, event: AuditEvent, /) -> Awaitable[None]:
        """Write one event."""
        ...

    def pass_over(self, event: AuditEvent, /) -> None:
        """Write this event no more when it comes: it stands there already."""
        ...


@runtime_checkable
class FencedKeys(Protocol):
    """A store of keys that keeps the event of a start together with its mark."""

    @property
    def fenced(self) -> bool:
        """Whether it does."""
        ...

    async def start(self, key: str, started: AuditEvent, now: datetime) -> bool:
        """Note that the handler is about to be entered; False if the key is another's."""
        ...


class Fence(NamedTuple):
    """What of an engine stands in one database with its audit."""

    sink: FencedSink
    approvals: bool
    keys: FencedKeys | None


def first_data(approval: ApprovalRecord | None) -> Mapping[str, JSON]:
    """Return what the audit is told of a first attempt."""
    return FIRST if approval is None else frozen(attempt=1, approval_id=approval.id)


def starter(runtime: Runtime) -> Tell:
    """Return what tells that a handler starts."""
    evidence = runtime.evidence
    plain: Tell = evidence.start_strictly if evidence.strict else evidence.note
    fence = runtime.fence
    if fence is None:
        return plain
    keys = fence.keys

    def tell(kind: str, call: Call, data: Mapping[str, JSON]) -> Awaitable[None] | None:
        if call.told_start:
            return None
        # The key of a resumed call was left waiting for the approval, which is spent by now.
        if keys is None or call.claim_key is None or call.resumed:
            return plain(kind, call, data)
        return _start_key(call, call.claim_key, keys, runtime)

    return tell


async def start_event(call: Call, runtime: Runtime) -> AuditEvent:
    """Return the event of the start, to be kept once all before it stands in the database."""
    if runtime.fence is not None:
        await runtime.evidence.reach(runtime.fence.sink)
    return runtime.evidence.event("capability.started", call, first_data(call.approval))


async def tell_start(call: Call, event: AuditEvent, runtime: Runtime) -> None:
    """Tell the sinks, but for the one that has kept the event already.

    Raises:
        CapabilityError: AUDIT_UNAVAILABLE, where the audit is strict.
    """
    if runtime.fence is not None:
        runtime.fence.sink.pass_over(event)
    call.told_start = True
    noted = runtime.evidence.hand_start(event)
    if noted is not None:
        await call.watch.shielded(noted)


async def _start_key(call: Call, key: str, keys: FencedKeys, runtime: Runtime) -> None:
    event = await start_event(call, runtime)
    noted = keys.start(key, event, runtime.clock.now())
    if not await ask_store(runtime, noted, call):
        raise CapabilityError(ErrorCode.IDEMPOTENCY_CONFLICT, retryable=True)
    await tell_start(call, event, runtime)
