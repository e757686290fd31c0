"""The real engine of the desk, with a clock that stands still and every seam within reach."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final

from capgate import Engine
from capgate.audit import MemoryAudit
from capgate.testing import FakeClock
from examples.support_desk.desk.app import build_engine, desk_pipeline
from examples.support_desk.desk.directory import Directory
from examples.support_desk.desk.store import ShopStore
from examples.support_desk.desk.world import Desk
from examples.support_desk.replay.probe import Times, with_marks
from examples.support_desk.replay.seams import SwitchedSink, SwitchedStore

MONDAY_MORNING: Final = "2026-11-30T09:00:00Z"


@dataclass(frozen=True, slots=True)
class Rig:
    """One engine and everything around it that a recorded line may touch.

    `run` tells the idempotency keys of this run from those of earlier ones.
    """

    engine: Engine[Desk]
    desk: Desk
    directory: Directory
    clock: FakeClock
    store: SwitchedStore
    sink: SwitchedSink
    events: MemoryAudit
    times: Times
    run: str

    def calm(self) -> None:
        """Undo every fault."""
        self.store.approvals.up = self.sink.up = True
        self.store.approvals.alter = None
        self.directory.down = self.desk.scores.down = False
        self.desk.courier.script.clear()
        self.desk.gateway.answers_to_lose = 0
        self.desk.archive.pause = 0.0
        self.desk.archive.on_page = None


def build_rig(url: str) -> Rig:
    """Return a fresh desk on the database at `url`, in which earlier runs may have left theirs."""
    clock = FakeClock(MONDAY_MORNING)
    desk = Desk(ShopStore.load(), clock=clock)
    directory = Directory.load()
    store = SwitchedStore(url)
    sink, events, times = SwitchedSink(), MemoryAudit(), Times()
    engine = build_engine(
        desk,
        directory=directory,
        store=store,
        audit=[sink, events],
        pipeline=with_marks(desk_pipeline(clock), times),
    )
    run = secrets.token_hex(4)
    return Rig(engine, desk, directory, clock, store, sink, events, times, run)
