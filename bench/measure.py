"""Timing: rounds in which every workload takes its turn, so that all meet the same machine."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

Workload = Callable[[int], Awaitable[None]]


@dataclass(frozen=True)
class Bound:
    """What the ratio has to be, and what it should be; None where nothing is asked."""

    must: float | None = None
    aim: float | None = None


@dataclass(frozen=True)
class Result:
    """One row of the table. Times are microseconds of CPU for one unit of work."""

    key: str
    work: str
    best: float
    median: float
    floor: float
    ratio: float
    ratio_median: float
    bound: Bound

    @property
    def verdict(self) -> str:
        """How the best ratio stands to the bound."""
        if self.bound.must is None:
            return ""
        if self.ratio > self.bound.must:
            return "FAILS"
        return "aim met" if self.bound.aim and self.ratio <= self.bound.aim else "holds"

    def as_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return {**asdict(self), "verdict": self.verdict}


async def interleave(turns: dict[str, tuple[Workload, int]], rounds: int) -> dict[str, list[float]]:
    """CPU microseconds for one unit of work, one figure a round, for each workload.

    A workload comes with the number of units it does in its turn. A first round is thrown away:
    it fills caches and binds what is bound at first use.
    """
    spent: dict[str, list[float]] = {key: [] for key in turns}
    for number in range(rounds + 1):
        for key, (workload, units) in turns.items():
            gc.collect()
            start = time.process_time()
            await workload(units)
            used = time.process_time() - start
            if number:
                spent[key].append(1e6 * used / units)
    return spent


def compare(key: str, work: str, case: list[float], floor: list[float], bound: Bound) -> Result:
    """Hold one workload against its floor, round by round."""
    return Result(
        key=key,
        work=work,
        best=min(case),
        median=statistics.median(case),
        floor=min(floor),
        ratio=min(case) / min(floor),
        ratio_median=statistics.median(c / f for c, f in zip(case, floor, strict=True)),
        bound=bound,
    )
