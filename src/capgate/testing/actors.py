"""Actors for tests: a caller, and an approver who satisfies what a record asks of one."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from capgate.call import Actor

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from capgate.approvals import ApprovalRecord
    from capgate.call import ActorKind

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


def fake_actor(
    id: str = "test-user",
    kind: ActorKind = "user",
    *,
    display_name: str | None = None,
    permissions: Collection[str] = frozenset(),
    attributes: Mapping[str, object] = _NOTHING,
) -> Actor:
    """Return an actor: a user without permissions, but for the fields given.

    Raises:
        TypeError, ValueError: As `Actor`.
    """
    return Actor(
        id, kind, display_name=display_name, permissions=permissions, attributes=attributes
    )


def approver_of(record: ApprovalRecord, name: str) -> Actor:
    """Return a user who has not answered the record yet, with every permission it asks for."""
    taken = {record.actor.id, *(decision.by.id for decision in record.decisions)}
    candidates = (name if number == 1 else f"{name}-{number}" for number in range(1, 2**63))
    id_ = next(candidate for candidate in candidates if candidate not in taken)
    permissions = {name for rule in record.approver_rules for name in rule.get("requires", ())}
    return Actor(id_, permissions=permissions)
