"""Idempotency keys: claiming one before the approval gate, and settling it with the outcome."""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from capgate.approvals import ApprovalStatus
from capgate.capability import ContractViolation, input_hash
from capgate.errors import CapabilityError, Effect, ErrorCode
from capgate.idempotency import (
    Claim,
    Claimed,
    Conflict,
    IdempotencyStore,
    Replay,
    StoredOutcome,
    Suspended,
    scoped_key,
    store_error,
)
from capgate.pipeline.asking import ask_store
from capgate.pipeline.gate import Suspend

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.call import Call
    from capgate.pipeline.runtime import Runtime

TTL: Final = timedelta(hours=24)
_ATTEMPTS: Final = 3


class Replayed(Exception):
    """The call's key already has an outcome; the call's record holds it."""


def _digest(call: Call) -> str:
    """Return the hash that tells this input from every other one.

    A masked form, such as a secret's, stands for many values: under it one key would answer for
    all of them.
    """
    try:
        if call.form is not None:
            return input_hash(call.form.prove_input(call.value))
    except (ContractViolation, ValueError) as error:
        raise CapabilityError(
            ErrorCode.IDEMPOTENCY_CONFLICT, reason="no canonical input"
        ) from error
    raise LookupError("a key is claimed for a validated input")


async def claim(call: Call, runtime: Runtime) -> None:
    """Claim the caller's key, or end the call with what became of its first use.

    Raises:
        Replayed: The first call ended; its outcome stands.
        Suspend: The first call waits for approval; so does this one.
        CapabilityError: IDEMPOTENCY_CONFLICT, or INTERNAL_ERROR at stage policy when the store
            failed.
    """
    digest = _digest(call)
    key = scoped_key(call.capability_id, call.actor, call.request.idempotency_key or "")
    for _ in range(_ATTEMPTS):
        # Noted first: if the answer is lost, the key may be this call's, and is given back.
        call.claim_key = key
        answer = await ask_store(runtime, begin(call, runtime, key, digest), call)
        if isinstance(answer, Claimed):
            return
        call.claim_key = None
        if isinstance(answer, Replay):
            call.replay = answer.outcome
            raise Replayed
        if isinstance(answer, Suspended):
            await _follow(call, runtime, key, answer)
        elif isinstance(answer, Conflict):
            raise CapabilityError(ErrorCode.IDEMPOTENCY_CONFLICT, retryable=False)
        else:
            # In flight; or no answer at all, which is not taken for a claim.
            break
    raise CapabilityError(ErrorCode.IDEMPOTENCY_CONFLICT, retryable=True)


async def _follow(call: Call, runtime: Runtime, key: str, answer: Suspended) -> None:
    """Wait with the first call, or free the key of an approval that came to nothing."""
    record = await runtime.desk.get(answer.approval_id)
    if record.status in {ApprovalStatus.PENDING, ApprovalStatus.APPROVED}:
        call.suspended = record
        raise Suspend
    if record.status is ApprovalStatus.CONSUMED:
        raise CapabilityError(ErrorCode.IDEMPOTENCY_CONFLICT, retryable=True)
    await ask_store(runtime, runtime.idempotency.release(key, answer.execution_id), call)


def begin(call: Call, runtime: Runtime, key: str, digest: str) -> Awaitable[Claim]:
    """Return the question whether the key is this call's."""
    now = runtime.clock.now()
    return runtime.idempotency.begin(key, digest, call.execution_id, now, TTL)


def _suspending(
    store: IdempotencyStore, call: Call, key: str, approval_id: str
) -> Awaitable[object]:
    """Have the key wait for an approval; who holds it is told to a store that wants to know."""
    wanted = inspect.signature(store.suspend).parameters
    if "replaces" not in wanted:
        return store.suspend(key, approval_id)
    replaces = None if call.approval is None else call.approval.id
    return store.suspend(key, approval_id, execution_id=call.execution_id, replaces=replaces)


async def settle(
    call: Call, runtime: Runtime, error: CapabilityError | None, *, idempotent: bool
) -> None:
    """Keep the outcome under the call's key, or free it; the call is over."""
    key = call.claim_key
    if key is None:
        return
    store, atomic = runtime.idempotency, runtime.atomic_start
    if atomic is not None:
        # The end stands in the audit before the key answers with it: a crash in between leaves an
        # execution that is listed, not one that never ended.
        await runtime.evidence.flush(atomic.sink)
    if call.suspended is not None and error is None:
        await ask_store(runtime, _suspending(store, call, key, call.suspended.id))
    elif _frees(call, error, idempotent=idempotent):
        await _free(call, runtime, key)
    else:
        await ask_store(runtime, store.complete(key, _stored(call, error)))


def _frees(call: Call, error: CapabilityError | None, *, idempotent: bool) -> bool:
    if error is None:
        return False
    return call.effect is Effect.NONE or (call.effect is Effect.UNKNOWN and idempotent)


async def _free(call: Call, runtime: Runtime, key: str) -> None:
    """Release the key; a resumed call first asks who holds it."""
    holder = call.execution_id
    if call.resumed:
        if call.approval is None or not call.spent:
            return
        asked = begin(call, runtime, key, call.approval.input_hash)
        answer = await ask_store(runtime, asked)
        holder = answer.execution_id if isinstance(answer, Suspended) else holder
    await ask_store(runtime, runtime.idempotency.release(key, holder))


def _stored(call: Call, error: CapabilityError | None) -> StoredOutcome:
    if error is None:
        return StoredOutcome(
            call.execution_id,
            "completed",
            output=call.output_json,
            effect=call.effect.value,
            attempts=call.attempts,
            late=call.late,
        )
    stopped = error.code in {ErrorCode.TIMEOUT, ErrorCode.CANCELLED}
    return StoredOutcome(
        call.execution_id,
        "cancelled" if stopped else "failed",
        error=store_error(error),
        effect=call.effect.value,
        attempts=call.attempts,
    )
