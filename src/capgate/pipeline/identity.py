"""Who calls: resolving credentials once, where identity is first needed. Judging it is a stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capgate.call import Actor, call_bounded, capture
from capgate.errors import CapabilityError, ErrorCode, FailureStage, Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.call import Call
    from capgate.pipeline.runtime import Authenticate, Runtime


def capture_claimed(call: Call, actor: object) -> None:
    """Take the actor the caller passed, by copy; what is wrong with it is kept for the judge."""
    try:
        call.identity = call.actor = capture(actor)
    except Exception as error:
        call.identity_error = error


def identify(call: Call, runtime: Runtime) -> Awaitable[None] | None:
    """Resolve the credentials, if there are any that nobody has resolved yet."""
    if call.request.credentials is None or call.identity is not None:
        return None
    if call.identity_error is not None or runtime.authenticate is None:
        return None
    return _resolve(call, runtime.authenticate, runtime.policy_timeout)


async def _resolve(call: Call, authenticate: Authenticate, seconds: float) -> None:
    try:
        call.identity = call.actor = await authenticated(
            authenticate, call.request.credentials, seconds, call
        )
    except CapabilityError as error:
        call.identity_error = error


async def authenticated(
    authenticate: Authenticate, credentials: object, seconds: float, call: Call | None = None
) -> Actor:
    """Ask the authenticator.

    Args:
        authenticate: The engine's own.
        credentials: What the transport handed over.
        seconds: How long it may take.
        call: Whose credentials they are, if a call's.

    Raises:
        CapabilityError: UNAUTHENTICATED when it refused; INTERNAL_ERROR at stage authentication
            when it failed, did not answer in time, or answered with something else.
    """
    try:
        answer: object = await call_bounded(authenticate, credentials, seconds=seconds, call=call)
        if answer is None:
            raise Unauthenticated
        return capture(answer)
    except Unauthenticated as error:
        raise CapabilityError(ErrorCode.UNAUTHENTICATED) from error
    except Exception as error:
        raise CapabilityError(
            ErrorCode.INTERNAL_ERROR, stage=FailureStage.AUTHENTICATION
        ) from error
