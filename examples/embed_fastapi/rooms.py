"""What the service is about: booking meeting rooms. It knows nothing of HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

import anyio
from pydantic import Field

from capgate import (
    Actor,
    Decision,
    DomainError,
    Effect,
    Engine,
    Library,
    PolicyRequest,
    allow,
    policy,
    require_approval,
    requires,
)
from capgate.audit import AuditSink, MemoryAudit
from capgate.idempotency import MemoryIdempotency

Room: TypeAlias = Literal["attic", "cellar", "garden"]
LONG_MEETING: Final = 4
# In a real service an identity provider says who a bearer token stands for.
TOKENS: Final[Mapping[str, Actor]] = {
    "sample-member": Actor("u_member", permissions={"rooms:book"}),
    "sample-other": Actor("u_other", permissions={"rooms:book"}),
    "sample-keeper": Actor("u_keeper", permissions={"rooms:book", "rooms:approve"}),
}

rooms = Library("rooms", "1.0")


class RoomTakenError(DomainError):
    """Somebody was faster."""

    code = "ROOM_TAKEN"
    message = "This room is taken."
    effect = Effect.NONE
    public_details = True


@dataclass(frozen=True, slots=True)
class Booking:
    """One room, for one meeting."""

    room: Room
    hours: int


@policy("long-meetings")
def long_meetings(request: PolicyRequest) -> Decision:
    """Somebody who keeps the rooms agrees to long meetings."""
    if request.arguments["hours"] <= LONG_MEETING:
        return allow()
    return require_approval("Long meetings need approval.", approvers=requires("rooms:approve"))


@rooms.capability("rooms.list", side_effect="read", risk="low", expose={"http"}, access="public")
async def list_rooms() -> list[Room]:
    """Return the rooms of the house."""
    return ["attic", "cellar", "garden"]


@rooms.capability(
    "rooms.inspect",
    side_effect="read",
    risk="low",
    expose={"http"},
    timeout=60.0,
)
async def inspect() -> str:
    """Walk through the house, which takes a while."""
    await anyio.sleep(30)
    return "everything is in order"


def build_engine(*, audit: AuditSink | None = None) -> Engine[None]:
    """Return an engine with all capabilities of the house."""
    engine = Engine(
        "rooms",
        version="1.0",
        libraries=[rooms],
        authenticate=_authenticate,
        idempotency=MemoryIdempotency(),
        audit=audit or MemoryAudit(),
    )
    booked: dict[Room, Booking] = {}

    @engine.capability(
        "rooms.book",
        side_effect="write",
        risk="medium",
        expose={"http"},
        access=requires("rooms:book"),
        policies=[long_meetings],
        errors=[RoomTakenError],
    )
    async def book(
        room: Room, hours: Annotated[int, Field(ge=1, le=12, description="How long.")]
    ) -> Booking:
        """Book a room."""
        if room in booked:
            raise RoomTakenError(details={"room": room})
        booked[room] = Booking(room, hours)
        return booked[room]

    return engine


async def _authenticate(credentials: object) -> Actor | None:
    return TOKENS.get(credentials) if isinstance(credentials, str) else None
