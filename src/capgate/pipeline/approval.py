"""Does this call need somebody's yes? The asking itself is in `gate.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from capgate.errors import FailureStage
from capgate.pipeline.gate import Gate, requirement_of, requirement_of_rule
from capgate.pipeline.stage import CoreStage, CoreStep, Skip
from capgate.pipeline.weaving import Piece
from capgate.policies import in_phase

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.approvals import Requirement
    from capgate.call import Call
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime


_IF_ASKED: Final = """\
if call.requirements:
    await ask_approval(call)
"""


class Approval(CoreStage):
    """Suspends a call that a policy, or the capability itself, wants approved.

    On resume nothing runs here: the grant was checked with the record it came from, and
    `Execution` spends it.
    """

    name = FailureStage.APPROVAL.value
    failure_stage = FailureStage.APPROVAL

    def prepare(self, capability: Enrolled, runtime: Runtime) -> CoreStep | Skip:
        """Bind the capability's own rule; policies add theirs at each call."""
        rule = capability.definition.approval
        title = capability.view.title or capability.view.id
        static = () if rule is None else (requirement_of_rule(rule, title),)
        policies = in_phase("invocation", runtime.policies, capability.definition.policies)
        if not static and not policies:
            return Skip("the capability has no approval rule and no policy could ask for one")
        asking = _Asking(Gate(capability, runtime), static)
        if static:
            return CoreStep(asking.run, None, "its own rule")
        return CoreStep(asking.run, None, "if a policy asks", piece=asking.piece)


class _Asking:
    __slots__ = ("_gate", "_static")

    def __init__(self, gate: Gate, static: tuple[Requirement, ...]) -> None:
        self._gate = gate
        self._static = static

    def run(self, call: Call) -> Awaitable[None] | None:
        if not self._static and not call.requirements:
            return None
        asked = tuple(requirement_of(decision) for decision in call.requirements)
        return self._gate.ask(call, (*self._static, *asked))

    def piece(self) -> Piece:
        return Piece(_IF_ASKED, {"ask_approval": self.run})
