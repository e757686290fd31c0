"""What a stage is: configuration that becomes a step, once per capability.

A stage decides nothing about a call by itself; its step does. The default stages stand next door,
one file each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from capgate.errors import FailureStage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from capgate.call import Call, Invocation
    from capgate.capability import CapabilityView
    from capgate.errors import CapabilityError
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime
    from capgate.pipeline.weaving import Piece

Run: TypeAlias = "Callable[[Invocation], Awaitable[None] | None]"
CoreRun: TypeAlias = "Callable[[Call], Awaitable[None] | CapabilityError | None]"
"""Raises to refuse; or returns the refusal, which costs no traceback."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a stage runs for one capability.

    Args:
        run: Takes the `Invocation`; raises to refuse, returns None to go on; may be async.
        detail: What `describe().plan` says about it.
    """

    run: Run
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Skip:
    """A stage that has nothing to do for a capability; it costs nothing per call."""

    reason: str


class Stage:
    """Base of every stage.

    Subclass it with a `name`, a `failure_stage` and a `run`. An exception of `run` that is not a
    `CapabilityError` refuses the call with the failure stage's own fail-closed code.
    """

    name: str = ""
    failure_stage: FailureStage = FailureStage.POLICY
    on_resume: bool = True

    def bind(self, capability: CapabilityView) -> Step | Skip:
        """Prepare for one capability; everything slow belongs here.

        Returns:
            The step to run at every call, or `Skip` with the reason.
        """
        return Step(self.run)

    def run(self, invocation: Invocation) -> Awaitable[None] | None:
        """Judge one call: raise to refuse, return to go on. A plain function or a coroutine."""
        raise NotImplementedError(f"{type(self).__name__} has neither run() nor bind()")


class CoreStep(NamedTuple):
    """A default stage's step: it may write the record.

    `resumed` is what runs on resume: None for nothing. `seldom` says that `run` has nothing to do
    for a call that claims no more than an input, an actor and deps; `piece` gives what it does for
    such a call, as source.
    """

    run: CoreRun | None
    resumed: CoreRun | None
    detail: str = ""
    seldom: bool = False
    piece: Callable[[], Piece | None] | None = None


class CoreStage(Stage):
    """Base of the default stages, which bind with the engine's own parts."""

    def prepare(self, capability: Enrolled, runtime: Runtime) -> CoreStep | Skip:
        """Prepare for one capability of one engine."""
        raise NotImplementedError

    def bind(self, capability: CapabilityView) -> Step | Skip:
        """Refuse: a default stage needs an engine."""
        raise TypeError(f"{self.name}: a default stage is bound by the engine")


@dataclass(slots=True, eq=False)
class Bound:
    """A step in its place in a plan."""

    stage: str
    failure_stage: FailureStage
    run: CoreRun
    core: bool
    seldom: bool = False
    piece: Callable[[], Piece | None] | None = None
