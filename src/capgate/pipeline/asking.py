"""The store of idempotency keys as a call meets it: bounded in time, failing in one known way."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from capgate.call import Overrun, Stray, bounded
from capgate.errors import CapabilityError, ErrorCode, FailureStage

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.call import Call
    from capgate.pipeline.runtime import Runtime

Answer = TypeVar("Answer")


async def ask_store(
    runtime: Runtime, question: Awaitable[Answer], call: Call | None = None
) -> Answer:
    """Ask the store, in bounded time; an outage is nobody's conflict.

    Args:
        runtime: The engine's parts.
        question: What is asked.
        call: Who waits for the answer; None once it has ended.
    """
    try:
        return await bounded(question, runtime.policy_timeout, call)
    except (Overrun, Stray, Exception) as error:
        raise CapabilityError(
            ErrorCode.INTERNAL_ERROR, stage=FailureStage.POLICY, retryable=True
        ) from error
