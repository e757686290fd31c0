"""Marks between the stages of a pipeline: when did each call pass which point?

A mark is an ordinary custom stage, so this needs nothing from the engine that an application
does not have.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Final

from typing_extensions import override

from capgate import FailureStage, Invocation, Pipeline, Stage

ENTRY: Final = "entry"


@dataclass(frozen=True, slots=True)
class Lap:
    """One stage that a call passed, and how long it took."""

    stage: str
    seconds: float


class Times:
    """When each execution passed each mark."""

    def __init__(self) -> None:
        self._passed: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)

    def note(self, execution_id: str, point: str) -> None:
        """Write down that an execution is past a point."""
        self._passed[execution_id].append((point, perf_counter()))

    def laps(self, execution_id: str, *, stopped: str | None, ended: float) -> list[Lap]:
        """Return the stages that an execution went through, in order.

        Args:
            execution_id: Which one.
            stopped: The stage that ended it, None when it passed them all.
            ended: When the caller had the outcome, on the clock of `perf_counter`.
        """
        passed = self._passed[execution_id]
        points = [*passed, (stopped, ended)] if stopped else passed
        return [Lap(point or "", then - before) for (_, before), (point, then) in pairwise(points)]


class Mark(Stage):
    """Notes that a call has passed the stage before it."""

    failure_stage = FailureStage.EXECUTION

    def __init__(self, times: Times, passed: str) -> None:
        self.name = f"mark-{passed}"
        self._times = times
        self._passed = passed

    @override
    def run(self, invocation: Invocation) -> None:
        """Write it down."""
        self._times.note(invocation.execution_id, self._passed)


def with_marks(pipeline: Pipeline, times: Times) -> Pipeline:
    """Return the pipeline with a mark before the first stage and after every stage."""
    names = [stage.name for stage in pipeline.stages]
    marked = pipeline.before(names[0], Mark(times, ENTRY))
    for name in names:
        marked = marked.after(name, Mark(times, name))
    return marked
