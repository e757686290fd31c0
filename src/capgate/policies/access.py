"""Asking an access rule: exactly True permits, everything else refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capgate.call import Overrun, Stray, bounded, is_awaitable
from capgate.errors import CapabilityError, ErrorCode
from capgate.policies.asking import contained, discard

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.call import Actor, Call
    from capgate.capability import AccessRequest, AccessRule


def ask_rule(
    rule: AccessRule, request: AccessRequest, *, seconds: float, call: Call
) -> Awaitable[None] | None:
    """Return when `rule` permits; awaitable only when the rule is.

    Args:
        rule: Sync or async.
        request: What it is asked about.
        seconds: How long it may take in all; a late answer is no answer.
        call: Whose rule it is.

    Raises:
        CapabilityError: UNAUTHENTICATED for an anonymous actor, FORBIDDEN otherwise; FORBIDDEN and
            not exposed when the rule raised or ran out of time.
    """
    now = call.watch.now
    deadline = now() + seconds
    answer: object
    try:
        answer = rule(request)
    except BaseException as error:
        raise _broken(contained(error)) from error
    left = deadline - now()
    if left < 0.0:
        discard(answer)
        late = Overrun("the rule ran out of time")
        raise _broken(late) from late
    if answer is True:
        return None
    if is_awaitable(answer):
        return _ask_on(answer, request.actor, left, call)
    raise refused(request.actor)


async def _ask_on(pending: Awaitable[object], actor: Actor, seconds: float, call: Call) -> None:
    try:
        answer = await bounded(pending, seconds, call)
    except (Overrun, Stray, Exception) as error:
        raise _broken(error) from error
    if answer is not True:
        raise refused(actor)


def refused(actor: Actor) -> CapabilityError:
    """Return the refusal that fits who asks."""
    anonymous = actor.kind == "anonymous"
    return CapabilityError(ErrorCode.UNAUTHENTICATED if anonymous else ErrorCode.FORBIDDEN)


def _broken(error: BaseException) -> CapabilityError:
    return CapabilityError(
        ErrorCode.FORBIDDEN, exposed=False, reason=f"rule broke: {type(error).__name__}"
    )
