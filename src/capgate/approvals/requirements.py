"""What a gate asks for: single requirements, and the one request that several merge into.

Nothing here decides whether approval is needed; policies and capabilities do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from capgate.call import Duration, to_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from capgate.approvals.record import ApprovalRecord
    from capgate.capability import AccessRule


@dataclass(frozen=True, slots=True)
class Requirement:
    """One demand for approval, from a policy or from the capability itself.

    Args:
        reason: Shown to the requester.
        type: The kind of sign-off; None for any.
        expires_in: How long the request stays open; None for the engine's default.
        approvers: The access rule over the approver; None for any user.
        allow_self: Whether the requester may approve.
        quorum: Distinct approvers needed, at least 1.
    """

    reason: str
    type: str | None = None
    expires_in: Duration | None = None
    approvers: AccessRule | None = None
    allow_self: bool = False
    quorum: int = 1


@dataclass(frozen=True, slots=True)
class MergedRequirement:
    """Several requirements as one: nobody's demand is weaker than it was alone.

    Args:
        expires_in: Seconds.
    """

    reasons: tuple[str, ...]
    types: tuple[str, ...]
    expires_in: float
    rules: tuple[AccessRule, ...]
    allow_self: bool
    quorum: int


def merge(requirements: Iterable[Requirement], *, default_window: Duration) -> MergedRequirement:
    """Return one request that satisfies every requirement.

    All reasons and types in order, each once; every rule; the shortest window, where a
    requirement without one has the default; self-approval only if all allow it; the
    largest quorum.

    Raises:
        ValueError: There is nothing to merge.
        TypeError: A window is no duration.
    """
    demands = tuple(requirements)
    if not demands:
        raise ValueError("nothing to merge: at least one requirement is needed")
    windows = (default_window if d.expires_in is None else d.expires_in for d in demands)
    return MergedRequirement(
        reasons=tuple(dict.fromkeys(demand.reason for demand in demands)),
        types=tuple(dict.fromkeys(demand.type for demand in demands if demand.type is not None)),
        expires_in=min(to_seconds(window, "expires_in") for window in windows),
        rules=_each_once(demand.approvers for demand in demands),
        allow_self=all(demand.allow_self for demand in demands),
        quorum=max(demand.quorum for demand in demands),
    )


def covers(record: ApprovalRecord, requirement: Requirement) -> bool:
    """Whether a granted approval already is the sign-off that a later gate asks for.

    A typed requirement needs its type among the record's; one without a type needs its
    reason there, so that it is asked for once and never ignored.
    """
    if requirement.type is not None:
        return requirement.type in record.types
    return requirement.reason in record.reasons


def _each_once(rules: Iterable[AccessRule | None]) -> tuple[AccessRule, ...]:
    # By identity: a rule need not be hashable, nor honest about equality.
    return tuple({id(rule): rule for rule in rules if rule is not None}.values())
