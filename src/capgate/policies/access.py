"""Asking an access rule: exactly True permits, everything else refuses."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from capgate.call import Overrun, Stray, bounded
from capgate.errors import CapabilityError, ErrorCode
from capgate.policies.evaluate import contained

if TYPE_CHECKING:
    from capgate.call import Actor
    from capgate.capability import AccessRequest, AccessRule


def ask_rule(rule: AccessRule, request: AccessRequest, seconds: float) -> Awaitable[None] | None:
    """Return when `rule` permits; awaitable only when the rule is.

    Raises:
        CapabilityError: UNAUTHENTICATED for an anonymous actor, FORBIDDEN otherwise; FORBIDDEN and
            not exposed when the rule raised or ran out of time.
    """
    try:
        answer = rule(request)
    except BaseException as error:
        raise _broken(contained(error)) from error
    if answer is True:
        return None
    if isinstance(answer, Awaitable):
        return _ask_on(answer, request.actor, seconds)
    raise refused(request.actor)


async def _ask_on(pending: Awaitable[object], actor: Actor, seconds: float) -> None:
    try:
        answer = await bounded(pending, seconds)
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
