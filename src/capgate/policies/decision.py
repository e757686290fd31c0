"""What a policy may answer. Nothing here evaluates or combines answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from capgate.call import Duration, to_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from capgate.capability import AccessRule
    from capgate.errors import JSON


class Verdict(StrEnum):
    """The kinds of answer, from the strictest to the mildest; `error` is a broken policy's."""

    HIDE = "hide"
    DENY = "deny"
    ERROR = "error"
    REQUIRE_APPROVAL = "require-approval"
    ALLOW = "allow"
    NOT_EVALUATED = "not-evaluated"

    rank: int
    """Its place in that order, from 0."""

    # The text's own, which is what they compare by; the one of an enumeration is several times
    # as slow, and answers are looked up on the hot path.
    __hash__ = str.__hash__


for _place, _verdict in enumerate(Verdict):
    _verdict.rank = _place

_NO_METADATA: Final[Mapping[str, JSON]] = MappingProxyType({})
_ANSWERS: Final = frozenset({Verdict.HIDE, Verdict.DENY, Verdict.REQUIRE_APPROVAL, Verdict.ALLOW})


class Decision(NamedTuple):
    """One policy's answer; build it with `allow`, `deny`, `hide` or `require_approval`.

    A tuple, because policies answer on the hot path. One that was put together by hand is checked
    like any other, and counts as an error when it is not well formed.
    """

    verdict: Verdict
    message: str | None = None
    reason: str | None = None
    type: str | None = None
    expires_in: float | None = None
    approvers: AccessRule | None = None
    allow_self: bool = False
    metadata: Mapping[str, JSON] = _NO_METADATA


ALLOW: Final = Decision(Verdict.ALLOW)
_DENIED: Final = Verdict.DENY
_ASKED: Final = Verdict.REQUIRE_APPROVAL
_FIELDS: Final = len(Decision._fields)
_HIDE: Final = Decision(Verdict.HIDE)


def allow(**metadata: JSON) -> Decision:
    """Let the call go on.

    Args:
        **metadata: Facts for the audit, JSON values only; the caller never sees them.
    """
    if not metadata:
        return ALLOW
    return Decision(Verdict.ALLOW, metadata=MappingProxyType(metadata))


def deny(message: str | None = None, *, reason: str | None = None) -> Decision:
    """Refuse the call.

    Args:
        message: Shown to the caller; a constant sentence when None.
        reason: A short word for the audit; never shown.

    Raises:
        TypeError: Not text.
    """
    if message is not None:
        _check_text("deny message", message)
    if reason is not None:
        _check_text("deny reason", reason)
    return Decision(_DENIED, message, reason)


def hide() -> Decision:
    """Refuse the call and make the capability look missing."""
    return _HIDE


def require_approval(
    reason: str,
    *,
    type: str | None = None,
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

    Raises:
        TypeError: Naming the argument that is wrong.
    """
    window = None if expires_in is None else to_seconds(expires_in, "require_approval expires_in")
    decision = Decision(Verdict.REQUIRE_APPROVAL, None, reason, type, window, approvers, allow_self)
    problem = problem_of(decision)
    if problem is not None:
        raise TypeError(f"require_approval: {problem}")
    return decision


def problem_of(parts: tuple[object, ...]) -> str | None:
    """Return what is wrong with a decision, None when it is well formed."""
    if len(parts) != _FIELDS:
        return "it lacks fields"
    verdict = parts[0]
    if type(verdict) is not Verdict or verdict not in _ANSWERS:
        return "the verdict must be hide, deny, require-approval or allow"
    for text in parts[1:4]:
        if text is not None and not isinstance(text, str):
            return "message, reason and type must be a str or None"
    metadata = parts[-1]
    if metadata is not _NO_METADATA and not isinstance(metadata, Mapping):
        return "metadata must be a mapping"
    return _approval_problem(cast("Decision", parts)) if verdict is _ASKED else None


def captured(decision: Decision) -> Decision:
    """Return a decision whose metadata nobody can change any more."""
    metadata = decision.metadata
    if metadata is _NO_METADATA:
        return decision
    return decision._replace(metadata=_frozen(metadata))


def _frozen(value: JSON) -> JSON:
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, JSON]", value)
        return MappingProxyType({key: _frozen(member) for key, member in fields.items()})
    if isinstance(value, list | tuple):
        return tuple(_frozen(member) for member in cast("Iterable[JSON]", value))
    return frozenset(cast("set[object]", value)) if isinstance(value, set) else value


def _approval_problem(decision: Decision) -> str | None:
    if decision.reason is None or not decision.reason.strip():
        return "the reason must not be blank"
    if decision.approvers is not None and not callable(decision.approvers):
        return "approvers must be an access rule"
    if type(decision.allow_self) is not bool:
        return "allow_self must be True or False"
    window: object = decision.expires_in
    finite = isinstance(window, float) and math.isfinite(window) and window > 0
    return None if window is None or finite else "expires_in must be finite and greater than 0"


def _check_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str or None, got {type(value).__name__}")
