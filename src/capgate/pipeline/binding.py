"""Binding: every stage of a pipeline to one capability, once, which makes its plan."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, cast

from capgate.call import Invocation, bounded
from capgate.capability import FrozenDict
from capgate.pipeline.ending import Ending
from capgate.pipeline.execution import Execution
from capgate.pipeline.plan import Line, Plan
from capgate.pipeline.stage import Bound, CoreStage, Skip, Stage, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping

    from capgate.call import Call
    from capgate.errors import JSON
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime
    from capgate.pipeline.stage import CoreRun, Run


_LINES: Final = 256


def plan_for(stages: Iterable[Stage], capability: Enrolled, runtime: Runtime) -> Plan:
    """Bind every stage to `capability`."""
    before: list[Line] = []
    after: list[Line] = []
    place = before
    for stage in stages:
        place.append(_bind(stage, capability, runtime))
        if isinstance(stage, Execution):
            place = after
    ending = Ending(runtime, capability)
    return Plan(before, after, ending, runtime=runtime, capability=capability)


def plan_refusal(
    refuse: CoreRun, stage: Stage, runtime: Runtime, *, known: Enrolled | None = None
) -> Plan:
    """Return the plan of what is unknown or not exposed: it looks the same from outside."""
    step = Bound(stage.name, stage.failure_stage, refuse, core=True)
    line = Line(step, step, _line(stage.name, "refuses"))
    return Plan((line,), (), Ending(runtime, None), runtime=runtime, capability=known, refuses=True)


def _bind(stage: Stage, capability: Enrolled, runtime: Runtime) -> Line:
    if isinstance(stage, CoreStage):
        return _bind_core(stage, capability, runtime)
    step = cast("object", stage.bind(capability.view))
    if not isinstance(step, Step | Skip):
        raise TypeError(f"stage {stage.name!r}: bind() must return a Step or a Skip")
    said = cast("object", step.reason if isinstance(step, Skip) else step.detail)
    if not isinstance(said, str):
        raise TypeError(f"stage {stage.name!r}: what bind() says of its step must be a str")
    if isinstance(step, Skip):
        return _skipped(stage, step)
    run = _shown(step.run, runtime.policy_timeout)
    bound = Bound(stage.name, stage.failure_stage, run, core=False)
    line = _line(stage.name, step.detail or "custom")
    return Line(bound, bound if stage.on_resume else None, line)


def _bind_core(stage: CoreStage, capability: Enrolled, runtime: Runtime) -> Line:
    step = stage.prepare(capability, runtime)
    if isinstance(step, Skip):
        return _skipped(stage, step)
    name, tag = stage.name, stage.failure_stage
    seldom, piece = step.seldom, step.piece
    return Line(
        None if step.run is None else Bound(name, tag, step.run, True, seldom, piece),
        None if step.resumed is None else Bound(name, tag, step.resumed, core=True),
        _line(name, step.detail),
    )


def _skipped(stage: Stage, skip: Skip) -> Line:
    return Line(None, None, _line(stage.name, skip.reason, runs=False))


def _shown(run: Run, seconds: float) -> CoreRun:
    """Give a custom step its read-only view, and bound it in time if it is async."""

    def shown(call: Call) -> Awaitable[None] | None:
        pending = run(Invocation(call))
        return None if pending is None else bounded(pending, seconds, call)

    return shown


@functools.lru_cache(maxsize=_LINES)  # most capabilities share most of their lines
def _line(stage: str, detail: str, *, runs: bool = True) -> Mapping[str, JSON]:
    """Return what `describe` says of a stage: data that can be copied and not changed."""
    return FrozenDict({"stage": stage, "runs": runs, "detail": detail})
