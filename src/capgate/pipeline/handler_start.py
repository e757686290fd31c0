"""That a handler starts: told to every sink, and kept together with what the call spends.

Where one database keeps the audit, the approvals and the keys, the event stands there in the
transaction that spends the approval, or marks the key, before the handler is entered. After a
crash nobody has to guess what was begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from capgate.errors import CapabilityError, ErrorCode
from capgate.pipeline.asking import ask_store
from capgate.pipeline.evidence import FIRST, frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from capgate.approvals import ApprovalRecord
    from capgate.audit import AuditEvent
    from capgate.call import Call
    from capgate.errors import JSON
    from capgate.idempotency import StartKeepingKeys
    from capgate.pipeline.runtime import Runtime

Tell: TypeAlias = "Callable[[str, Call, Mapping[str, JSON]], Awaitable[None] | None]"


@dataclass(frozen=True, slots=True)
class AtomicStart:
    """Which stores of an engine keep a start in the transaction that spends.

    Args:
        sink: The audit's sink on their database, which need not be told again.
        approvals: Whether the store of approvals does.
        keys: The store of idempotency keys, if it does.
    """

    sink: object
    approvals: bool
    keys: StartKeepingKeys | None


def first_data(approval: ApprovalRecord | None) -> Mapping[str, JSON]:
    """Return what the audit is told of a first attempt."""
    return FIRST if approval is None else frozen(attempt=1, approval_id=approval.id)


def starter(runtime: Runtime) -> Tell:
    """Return what tells that a handler starts."""
    evidence, atomic = runtime.evidence, runtime.atomic_start
    plain: Tell = evidence.start_strictly if evidence.strict else evidence.note
    if atomic is None:
        return plain
    keys = atomic.keys

    def tell(kind: str, call: Call, data: Mapping[str, JSON]) -> Awaitable[None] | None:
        if call.told_start:
            return None
        # The key of a resumed call was left waiting for the approval, which is spent by now.
        if keys is None or call.claim_key is None or call.resumed:
            return plain(kind, call, data)
        return _start_key(call, call.claim_key, keys, runtime)

    return tell


async def start_event(call: Call, runtime: Runtime) -> AuditEvent | None:
    """Return the event of a start to be kept with the approval that is spent, if that can be."""
    atomic = runtime.atomic_start
    if atomic is None or not atomic.approvals:
        return None
    return await _event(call, runtime)


async def tell_start(call: Call, event: AuditEvent | None, runtime: Runtime) -> None:
    """Tell every other sink of a start that has been kept.

    Raises:
        CapabilityError: AUDIT_UNAVAILABLE, where the audit is strict.
    """
    atomic = runtime.atomic_start
    if event is None or atomic is None:
        return
    call.told_start = True
    noted = runtime.evidence.hand_start(event, kept_by=atomic.sink)
    if noted is not None:
        await call.watch.shielded(noted)


async def _event(call: Call, runtime: Runtime) -> AuditEvent:
    """Return the event of a start, once what came before it has been given to the same sink.

    A sink that takes none for too long does not hold the call up: the start then stands before
    what still waits.
    """
    if runtime.atomic_start is not None:
        await runtime.evidence.flush(runtime.atomic_start.sink)
    return runtime.evidence.event("capability.started", call, first_data(call.approval))


async def _start_key(call: Call, key: str, keys: StartKeepingKeys, runtime: Runtime) -> None:
    event = await _event(call, runtime)
    noted = keys.start(key, started=event, now=runtime.clock.now())
    if not await ask_store(runtime, noted, call):
        raise CapabilityError(ErrorCode.IDEMPOTENCY_CONFLICT, retryable=True)
    await tell_start(call, event, runtime)
