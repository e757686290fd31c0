"""Does the capability exist for this caller, here? What refuses looks missing.

An unknown id and a surface that is not exposed never get this far: their plan is a refusal. This
file holds that refusal and the policies of the discovery phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from capgate.errors import CapabilityError, ErrorCode, FailureStage, refusal
from capgate.pipeline.identity import identify
from capgate.pipeline.policy import report_broken
from capgate.pipeline.stage import CoreRun, CoreStage, CoreStep, Skip
from capgate.policies import PolicyBatch, Ruling, Verdict, in_phase

if TYPE_CHECKING:
    from capgate.call import Call
    from capgate.capability import CapabilityView
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime

_DENIALS = {
    Verdict.HIDE: "hidden",
    Verdict.DENY: "policy-denied",
    Verdict.ERROR: "policy-failed",
}


class Discovery(CoreStage):
    """Conceals what a discovery-phase policy hides, denies or breaks on."""

    name = FailureStage.DISCOVERY.value
    failure_stage = FailureStage.DISCOVERY

    def prepare(self, capability: Enrolled, runtime: Runtime) -> CoreStep | Skip:
        """Bind the policies of the discovery phase."""
        policies = in_phase("discovery", runtime.policies, capability.definition.policies)
        if not policies:
            return Skip("no policy runs at discovery; exposure is part of the plan")
        batch = PolicyBatch(
            policies, "discovery", seconds=runtime.policy_timeout, clock=runtime.clock
        )
        concealing = _Concealing(batch, capability.view, runtime)
        return CoreStep(concealing.run, concealing.run, f"policies: {', '.join(batch.names)}")


class _Concealing:
    __slots__ = ("_batch", "_runtime", "_view")

    def __init__(self, batch: PolicyBatch, view: CapabilityView, runtime: Runtime) -> None:
        self._view = view
        self._batch = batch
        self._runtime = runtime

    async def run(self, call: Call) -> None:
        pending = identify(call, self._runtime)
        if pending is not None:
            await pending
        ruling = self._batch.rule(call, self._view)
        if not isinstance(ruling, Ruling):
            ruling = await ruling
        call.decisions += ruling.records
        report_broken(call, ruling.broken, self._runtime)
        denial = _DENIALS.get(ruling.verdict)
        if denial is not None:
            call.denial = denial
            call.deny_reason = ruling.decision.reason if ruling.decision else None
            raise _refused_by_policy(ruling)


def _refused_by_policy(ruling: Ruling) -> CapabilityError:
    """Return a refusal that looks like the others outside; inside, its stage is the policies'."""
    error = CapabilityError(ErrorCode.CAPABILITY_NOT_FOUND, stage=FailureStage.POLICY)
    error.__cause__ = ruling.first_broken()
    return error


def concealed(call: Call, denial: str, cause: BaseException | None = None) -> CapabilityError:
    """Return the one refusal that stands for unknown, unexposed and hidden alike."""
    call.denial = denial
    return refusal(ErrorCode.CAPABILITY_NOT_FOUND, cause, execution_id=call.execution_id)


def refuse_as(denial: str) -> CoreRun:
    """Return the step of a plan that refuses: nothing is known, or nothing is exposed, here."""

    def refuse(call: Call) -> CapabilityError:
        return concealed(call, denial)

    return refuse
