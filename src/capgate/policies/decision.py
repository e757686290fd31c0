"""What a policy may answer. Nothing here evaluates or combines answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from capgate.call import Duration, to_seconds
from capgate.errors import JSON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capgate.capability import AccessRule


class Verdict(StrEnum):
    """The kinds of answer, from the strictest to the mildest; `error` stands for a broken policy."""

    HIDE = "hide"
    DENY = "deny"
    ERROR = "error"
    REQUIRE_APPROVAL = "require-approval"
    ALLOW = "allow"
    NOT_EVALUATED = "not-evaluated"


def _no_metadata() -> Mapping[str, JSON]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Decision:
    """One policy's answer; build it with `allow`, `deny`, `hide` or `require_approval`."""

    verdict: Verdict
    message: str | None = None
    reason: str | None = None
    type: str | None = None
    expires_in: float | None = None
    approvers: AccessRule | None = None
    allow_self: bool = False
    metadata: Mapping[str, JSON] = field(default_factory=_no_metadata, hash=False)


ALLOW: Final = Decision(Verdict.ALLOW)
_HIDE: Final = Decision(Verdict.HIDE)


def allow(**metadata: JSON) -> Decision:
    """Let the call go on.

    Args:
        **metadata: Facts for the audit, JSON values only; the caller never sees them.
    """
    if not metadata:
        return ALLOW
    return Decision(Verdict.ALLOW, metadata=MappingProxyType(dict(metadata)))


def deny(message: str | None = None, *, reason: str | None = None) -> Decision:
    """Refuse the call.

    Args:
        message: Shown to the caller; a constant sentence when None.
        reason: A short word for the audit; never shown.
    """
    _check_text("deny message", message)
    _check_text("deny reason", reason)
    return Decision(Verdict.DENY, message=message, reason=reason)


def hide() -> Decision:
    """Refuse the call and make the capability look missing."""
    return _HIDE


def require_approval(
    reason: str,
    *,
    type: str | None = None,  # noqa: A002  the keyword is part of the public contract
    expires_in: Duration | None = None,
    approvers: AccessRule | None = None,
    allow_self: bool = False,
) -> Decision:
    """Suspend the call until someone entitled approves it.

    Args:
        reason: Shown to the caller and to approvers; not blank.
        type: A word for the kind of sign-off, such as `"manager"`.
        expires_in: Seconds or a timedelta the request stays open; None for the engine's default.
        approvers: An access rule over the approver and the record; None for any user.
        allow_self: Whether the requester may approve, if every other requirement allows it too.
    """
    if not isinstance(reason, str) or not reason.strip():
        raise TypeError("require_approval needs a reason that is not blank")
    _check_text("require_approval type", type)
    if approvers is not None and not callable(approvers):
        raise TypeError("require_approval approvers must be an access rule")
    if not isinstance(allow_self, bool):
        raise TypeError("require_approval allow_self must be True or False")
    window = None if expires_in is None else to_seconds(expires_in, "require_approval expires_in")
    return Decision(
        Verdict.REQUIRE_APPROVAL,
        reason=reason,
        type=type,
        expires_in=window,
        approvers=approvers,
        allow_self=allow_self,
    )


def _check_text(what: str, value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{what} must be a str or None, got {type(value).__name__}")
