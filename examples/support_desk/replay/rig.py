"""The real engine of the desk, with a clock that stands still and every seam within reach."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from capgate import Engine
from capgate.audit import ChainedAudit, JsonlAudit, MemoryAudit
from capgate.testing import FakeClock
from examples.support_desk.desk.app import build_engine, desk_pipeline
from examples.support_desk.desk.directory import Directory
from examples.support_desk.desk.store import ShopStore
from examples.support_desk.desk.world import Desk
from examples.support_desk.replay.probe import Times, with_marks
from examples.support_desk.replay.seams import FaultyApprovals, SwitchedSink

MONDAY_MORNING: Final = "2026-11-30T09:00:00Z"


@dataclass(frozen=True, slots=True)
class Rig:
    """One engine and everything around it that a recorded line may touch."""

    engine: Engine[Desk]
    desk: Desk
    directory: Directory
    clock: FakeClock
    approvals: FaultyApprovals
    sink: SwitchedSink
    events: MemoryAudit
    times: Times

    def calm(self) -> None:
        """Undo every fault."""
        self.approvals.up = self.sink.up = True
        self.approvals.alter = None
        self.directory.down = self.desk.scores.down = False
        self.desk.courier.script.clear()
        self.desk.gateway.answers_to_lose = 0
        self.desk.archive.pause = 0.0
        self.desk.archive.on_page = None


def build_rig(trail: Path) -> Rig:
    """Return a fresh desk whose audit goes, hash-chained, to the file `trail`."""
    clock = FakeClock(MONDAY_MORNING)
    desk = Desk(ShopStore.load(), clock=clock)
    directory = Directory.load()
    approvals = FaultyApprovals()
    sink = SwitchedSink(ChainedAudit(JsonlAudit(trail)))
    events, times = MemoryAudit(), Times()
    engine = build_engine(
        desk,
        directory=directory,
        approvals=approvals,
        audit=[sink, events],
        pipeline=with_marks(desk_pipeline(clock), times),
    )
    return Rig(engine, desk, directory, clock, approvals, sink, events, times)
