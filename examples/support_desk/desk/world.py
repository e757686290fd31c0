"""What the desk works with: its store and the systems around it, simulated and scriptable.

A real application would put its clients here; handlers and policies see one `Desk`. Each
simulation can be told to misbehave, which is how the recorded calls reach the rare outcomes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

import anyio
from typing_extensions import TypedDict

from capgate.call import Clock, SystemClock
from examples.support_desk.desk.errors import GatewayTimeoutError
from examples.support_desk.desk.rows import Order, Payment, Ticket
from examples.support_desk.desk.store import ShopStore


class Tracking(TypedDict):
    """Where a parcel is, in the courier's words."""

    order_id: str
    place: Literal["label-created", "in-transit", "delivered"]


@dataclass(slots=True)
class Courier:
    """The parcel service; `script` holds answers or failures that come before the usual one."""

    script: deque[Tracking | Exception] = field(default_factory=deque[Tracking | Exception])

    async def locate(self, order: Order) -> Tracking:
        """Say where the parcel of one order is."""
        if self.script:
            answer = self.script.popleft()
            if isinstance(answer, Exception):
                raise answer
            return answer
        return {"order_id": order.id, "place": _PLACES[order.status]}


@dataclass(slots=True)
class Gateway:
    """The payment provider; one key moves money once, however often it is sent."""

    captured: dict[str, Decimal] = field(default_factory=dict[str, Decimal])
    answers_to_lose: int = 0

    async def capture(self, payment: Payment, *, key: str) -> None:
        """Take the authorized money.

        Raises:
            GatewayTimeoutError: The answer was lost; the money may have moved.
        """
        self.captured.setdefault(key, payment.amount)
        if self.answers_to_lose:
            self.answers_to_lose -= 1
            raise GatewayTimeoutError


@dataclass(slots=True)
class FraudScores:
    """The risk bureau: 0 is harmless, 100 is fraud."""

    down: bool = False

    async def of(self, order: Order) -> int:
        """Score one order; dear ones look suspicious.

        Raises:
            ConnectionError: The bureau does not answer.
        """
        if self.down:
            raise ConnectionError("scores.internal refused the connection")
        return min(99, int(order.total // 25))


@dataclass(slots=True)
class Archive:
    """Old tickets on slow disks: `pause` seconds a page."""

    pause: float = 0.0
    on_page: Callable[[int], None] | None = None

    async def read(self, tickets: Sequence[Ticket], page: int, size: int) -> Sequence[Ticket]:
        """Return one page, counted from 0."""
        if self.on_page is not None:
            self.on_page(page)
        await anyio.sleep(self.pause)
        return tickets[page * size : (page + 1) * size]


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything a handler or policy may use: the engine's dependencies."""

    store: ShopStore
    clock: Clock = field(default_factory=SystemClock)
    courier: Courier = field(default_factory=Courier)
    gateway: Gateway = field(default_factory=Gateway)
    scores: FraudScores = field(default_factory=FraudScores)
    archive: Archive = field(default_factory=Archive)


_PLACES: dict[str, Literal["label-created", "in-transit", "delivered"]] = {
    "placed": "label-created",
    "shipped": "in-transit",
    "delivered": "delivered",
    "cancelled": "label-created",
}
