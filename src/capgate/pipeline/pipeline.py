"""The list of stages and the verbs that edit it. Nothing runs here.

One law: the default stages keep their relative order, always. It is checked whenever a pipeline
is built, so a gate cannot be lost or misplaced by accident.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, final

from capgate.errors import ConfigurationError, FailureStage, Issue
from capgate.pipeline.default import DEFAULT_STAGES
from capgate.pipeline.execution import Execution
from capgate.pipeline.stage import CoreStage, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable

Anchor: TypeAlias = str | type[Stage]


@final
class Pipeline:
    """An immutable sequence of stages; each verb returns a new one."""

    __slots__ = ("_removed", "_stages")

    def __init__(self, stages: Iterable[Stage], *, removed: Iterable[str] = ()) -> None:
        """Check and hold `stages`; prefer `Pipeline.default()` and the edit verbs."""
        self._stages = tuple(stages)
        self._removed = tuple(removed)
        issues = _check(self._stages, self._removed)
        if issues:
            raise ConfigurationError(issues)

    @classmethod
    def default(cls) -> Pipeline:
        """Return the eight default stages in order."""
        return cls(stage() for stage in DEFAULT_STAGES)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages in order."""
        return self._stages

    @property
    def removed(self) -> tuple[str, ...]:
        """The default stages taken out with `unsafe=True`."""
        return self._removed

    def before(self, anchor: Anchor, stage: Stage) -> Pipeline:
        """Return a pipeline with `stage` right before `anchor`, a name or a class."""
        at = self._find(anchor)
        return Pipeline((*self._stages[:at], stage, *self._stages[at:]), removed=self._removed)

    def after(self, anchor: Anchor, stage: Stage) -> Pipeline:
        """Return a pipeline with `stage` right after `anchor`, a name or a class."""
        at = self._find(anchor) + 1
        return Pipeline((*self._stages[:at], stage, *self._stages[at:]), removed=self._removed)

    def replace(self, anchor: Anchor, stage: Stage) -> Pipeline:
        """Return a pipeline with `stage` in the place of `anchor`.

        A default stage can only be replaced by one of its own class; to do without it say
        `without(..., unsafe=True)`.
        """
        at = self._find(anchor)
        return Pipeline((*self._stages[:at], stage, *self._stages[at + 1 :]), removed=self._removed)

    def without(self, anchor: Anchor, unsafe: bool = False) -> Pipeline:
        """Return a pipeline that lacks `anchor`.

        Args:
            anchor: A name or a class.
            unsafe: Must be True to remove a default stage; `Execution` never goes.
        """
        at = self._find(anchor)
        stage = self._stages[at]
        removed = self._removed
        if isinstance(stage, CoreStage):
            _check_removal(stage, unsafe=unsafe)
            removed = (*removed, stage.name)
        return Pipeline((*self._stages[:at], *self._stages[at + 1 :]), removed=removed)

    def _find(self, anchor: Anchor) -> int:
        for index, stage in enumerate(self._stages):
            if stage.name == anchor or (isinstance(anchor, type) and isinstance(stage, anchor)):
                return index
        names = ", ".join(stage.name for stage in self._stages)
        text = f"no stage {_anchor_name(anchor)}; the pipeline has: {names}"
        raise ConfigurationError([Issue("PIPELINE_ANCHOR_UNKNOWN", text)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pipeline):
            return NotImplemented
        return self._stages == other._stages

    def __hash__(self) -> int:
        return hash(self._stages)

    def __repr__(self) -> str:
        return f"Pipeline({' > '.join(stage.name for stage in self._stages)})"


def _anchor_name(anchor: object) -> str:
    return anchor.__name__ if isinstance(anchor, type) else repr(anchor)


def _check_removal(stage: CoreStage, *, unsafe: bool) -> None:
    if isinstance(stage, Execution):
        raise ConfigurationError([Issue("PIPELINE_INVALID", "Execution cannot be removed")])
    if unsafe is not True:
        text = f"removing the default stage {stage.name!r} takes unsafe=True"
        raise ConfigurationError([Issue("PIPELINE_INVALID", text)])


def _check(stages: tuple[Stage, ...], removed: tuple[str, ...]) -> list[Issue]:
    issues = [issue for stage in stages for issue in _check_stage(stage)]
    if issues:
        return issues
    names = [stage.name for stage in stages]
    issues += [
        Issue("PIPELINE_INVALID", f"two stages are named {name!r}")
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    return issues + _check_order(stages, removed)


def _check_stage(stage: object) -> list[Issue]:
    where = type(stage).__name__
    if not isinstance(stage, Stage):
        text = f"{where} is not a Stage object" + (
            ": pass an instance, not the class" if isinstance(stage, type) else ""
        )
        return [Issue("PIPELINE_INVALID", text)]
    issues: list[Issue] = []
    kind = type(stage)
    if kind.run is Stage.run and kind.bind is Stage.bind:
        text = f"{where} has neither run() nor bind()"
        issues.append(Issue("PIPELINE_INVALID", text, where))
    if not (_is(stage.name, str) and stage.name.strip()):
        issues.append(Issue("PIPELINE_INVALID", f"{where} needs a name", where))
    if not _is(stage.failure_stage, FailureStage):
        text = f"{where}.failure_stage must be a FailureStage"
        issues.append(Issue("PIPELINE_INVALID", text, where))
    if not _is(stage.on_resume, bool):
        issues.append(Issue("PIPELINE_INVALID", f"{where}.on_resume must be True or False", where))
    return issues


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind)


def _check_order(stages: tuple[Stage, ...], removed: tuple[str, ...]) -> list[Issue]:
    wanted = [kind.name for kind in DEFAULT_STAGES if kind.name not in removed]
    kinds = {kind.name: kind for kind in DEFAULT_STAGES}
    found = [stage.name for stage in stages if isinstance(stage, CoreStage)]
    issues = [
        Issue("PIPELINE_INVALID", f"{stage.name!r} is the name of a default stage")
        for stage in stages
        if stage.name in kinds and not isinstance(stage, kinds[stage.name])
    ]
    if found != wanted:
        text = f"the default stages must all be there, in order: {', '.join(wanted)}"
        issues.append(Issue("PIPELINE_ORDER", text))
    return issues
