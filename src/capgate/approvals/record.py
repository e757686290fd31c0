"""The question somebody has to answer, as one immutable value.

Only the values live here. Who may decide is in `deciding`, what binds a record in `binding`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from capgate.approvals.actors import dump_actor, recapture, restore_actor
from capgate.approvals.plain import copy_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capgate.call import Actor
    from capgate.errors import JSON


class ApprovalStatus(StrEnum):
    """Where a request stands."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    CONSUMED = "consumed"


_OPEN = frozenset({ApprovalStatus.PENDING, ApprovalStatus.APPROVED})


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """One approver's answer.

    Args:
        approved: True or False, nothing that merely looks like it.
        by: Who answers.
        comment: The approver's own words; kept in the record and the audit.
        decided_at: When, aware; the engine sets it.
        seal: Written by the engine when it has keys, so that a store cannot forge an answer.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: The comment is no text, or the time has no zone.
    """

    approved: bool
    by: Actor
    comment: str | None = field(default=None, repr=False)
    decided_at: datetime | None = None
    seal: str | None = field(default=None, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse a malformed answer: it would be no answer."""
        if type(self.approved) is not bool:
            raise TypeError("ApprovalDecision.approved must be True or False")
        check_comment(self.comment)
        object.__setattr__(self, "by", recapture(self.by))
        if self.decided_at is not None:
            object.__setattr__(self, "decided_at", _utc(self.decided_at, "decided_at"))

    def to_dict(self) -> dict[str, JSON]:
        """Return the decision as plain JSON."""
        return {
            "approved": self.approved,
            "by": dump_actor(self.by),
            "comment": self.comment,
            "decided_at": None if self.decided_at is None else self.decided_at.isoformat(),
            "seal": self.seal,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, JSON]) -> ApprovalDecision:
        """Return the decision that `to_dict` wrote."""
        decided_at = data["decided_at"]
        return cls(
            approved=data["approved"],
            by=restore_actor(data["by"]),
            comment=data["comment"],
            decided_at=None if decided_at is None else datetime.fromisoformat(decided_at),
            seal=data["seal"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRecord:
    """One request for approval, bound to one exact operation.

    JSON values are copied in, so a record shares nothing mutable with whoever built it;
    `copy()` gives one that shares nothing with this one. `input` is the true value and is
    never shown; `shown_input` is what people see.

    Args:
        reasons: Shown to the requester.
        types: The kinds of sign-off that this record stands for.
        contract: The capability's fingerprint when it was asked.
        binding: What `binding.bind` wrote over everything that must not change.
        approver_rules: References to rules, as plain JSON; every one must be satisfied.
        quorum: Distinct approvers needed, at least 1.
        consumed_by: The execution that spent the approval.

    Raises:
        TypeError: A timestamp, the actor or a decision has the wrong type.
        ValueError: A timestamp has no time zone, or the quorum is below 1.
    """

    id: str
    capability_id: str
    surface: str
    actor: Actor
    input: JSON = field(repr=False)
    shown_input: JSON = field(repr=False)
    input_hash: str
    binding: str = field(default="", repr=False)
    contract: str
    reasons: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    risk: str
    side_effect: str
    correlation_id: str | None = None
    requested_at: datetime
    expires_at: datetime
    status: ApprovalStatus = ApprovalStatus.PENDING
    decisions: tuple[ApprovalDecision, ...] = ()
    consumed_by: str | None = None
    approver_rules: tuple[JSON, ...] = ()
    allow_self: bool = False
    quorum: int = 1
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        """Take copies of what could change, and bring times to UTC."""
        put = object.__setattr__
        put(self, "actor", recapture(self.actor))
        put(self, "input", copy_json(self.input))
        put(self, "shown_input", copy_json(self.shown_input))
        put(self, "approver_rules", tuple(copy_json(rule) for rule in self.approver_rules))
        put(self, "reasons", tuple(self.reasons))
        put(self, "types", tuple(self.types))
        put(self, "decisions", tuple(self.decisions))
        put(self, "status", ApprovalStatus(self.status))
        put(self, "requested_at", _utc(self.requested_at, "requested_at"))
        put(self, "expires_at", _utc(self.expires_at, "expires_at"))
        if self.quorum < 1:
            raise ValueError("ApprovalRecord.quorum must be at least 1")

    def status_at(self, now: datetime) -> ApprovalStatus:
        """Return the status at that time: an open record expires at `now >= expires_at`."""
        lapsed = self.status in _OPEN and now >= self.expires_at
        return ApprovalStatus.EXPIRED if lapsed else self.status

    def at(self, now: datetime) -> ApprovalRecord:
        """Return a copy whose status is the one at that time."""
        return changed(self, status=self.status_at(now))

    def copy(self) -> ApprovalRecord:
        """Return an equal record that shares nothing mutable with this one."""
        return replace(self)

    def approvers(self) -> tuple[Actor, ...]:
        """Return who approved, each once, in order."""
        return tuple(dict.fromkeys(each.by for each in self.decisions if each.approved))

    def to_dict(self) -> dict[str, JSON]:
        """Return the record as plain JSON that shares nothing with it.

        Raises:
            TypeError: An attribute of the actor has no JSON form.
        """
        plain: dict[str, JSON] = {name: copy_json(getattr(self, name)) for name in _PLAIN}
        plain["actor"] = dump_actor(self.actor)
        plain["requested_at"] = self.requested_at.isoformat()
        plain["expires_at"] = self.expires_at.isoformat()
        plain["status"] = self.status.value
        plain["decisions"] = [decision.to_dict() for decision in self.decisions]
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, JSON]) -> ApprovalRecord:
        """Return the record that `to_dict` wrote.

        Raises:
            KeyError, TypeError, ValueError: The data is not what `to_dict` writes.
        """
        values: dict[str, JSON] = {name: data[name] for name in _PLAIN}
        values["actor"] = restore_actor(data["actor"])
        values["requested_at"] = datetime.fromisoformat(data["requested_at"])
        values["expires_at"] = datetime.fromisoformat(data["expires_at"])
        values["status"] = ApprovalStatus(data["status"])
        values["decisions"] = tuple(map(ApprovalDecision.from_dict, data["decisions"]))
        return cls(**values)


_FIELDS = tuple(each.name for each in fields(ApprovalRecord))


def changed(record: ApprovalRecord, **changes: object) -> ApprovalRecord:
    """Return a record that shares all else with another; the values are not checked.

    Raises:
        TypeError: There is no such field.
    """
    # `replace` would copy and check the JSON again: most of what a change costs.
    after = object.__new__(ApprovalRecord)
    for name in _FIELDS:
        object.__setattr__(after, name, changes.pop(name, getattr(record, name)))
    if changes:
        raise TypeError(f"no field of a record: {', '.join(changes)}")
    return after


# What `to_dict` and `from_dict` carry over as it is; everything else needs a form of its own.
_PLAIN = (
    "id",
    "capability_id",
    "surface",
    "input",
    "shown_input",
    "input_hash",
    "binding",
    "contract",
    "reasons",
    "types",
    "risk",
    "side_effect",
    "correlation_id",
    "consumed_by",
    "approver_rules",
    "allow_self",
    "quorum",
    "idempotency_key",
)


def check_comment(comment: object) -> None:
    """Refuse a comment that could not be stored, sealed or shown.

    Raises:
        TypeError: Neither a str nor None.
        ValueError: It holds a lone surrogate, so it is no text.
    """
    if comment is None:
        return
    if not isinstance(comment, str):
        raise TypeError("comment must be a str or None")
    comment.encode()


def _utc(moment: object, name: str) -> datetime:
    if not isinstance(moment, datetime):
        raise TypeError(f"{name} must be a datetime")
    if moment.tzinfo is None:
        raise ValueError(f"{name} must carry a time zone")
    return moment.astimezone(UTC)
