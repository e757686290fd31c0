"""All policies of the invocation phase, combined; then the idempotency key is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from capgate.errors import CapabilityError, Effect, ErrorCode, FailureStage, refusal, seal
from capgate.pipeline.claiming import claim
from capgate.pipeline.stage import CoreStage, CoreStep
from capgate.pipeline.weaving import Piece
from capgate.policies import (
    ALLOW,
    PolicyBatch,
    PolicyRequest,
    Ruling,
    Verdict,
    contained,
    in_phase,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable

    from capgate.call import Call
    from capgate.capability import CapabilityView
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime


_ASKED: Final = """\
request = PolicyRequest(call, "invocation", engine_clock, view)
last = now() + patience
for place, evaluate in policies:
    try:
        answer = evaluate(request)
    except BaseException as error:
        answer = contained(error)
    if answer is not ALLOW or now() > last:
        answer = heed(call, rule_on(call, request, place, answer, last))
        if answer is not None:
            if isinstance(answer, CapabilityError):
                refused = answer
                break
            await answer
        break
else:
    call.decisions += allowed
if refused is not None:
    break
"""


class Policy(CoreStage):
    """Asks every policy, refuses by the strictest answer, then claims the idempotency key."""

    name = FailureStage.POLICY.value
    failure_stage = FailureStage.POLICY

    def prepare(self, capability: Enrolled, runtime: Runtime) -> CoreStep:
        """Bind the engine's policies, then the capability's."""
        policies = in_phase("invocation", runtime.policies, capability.definition.policies)
        batch = PolicyBatch(
            policies, "invocation", seconds=runtime.policy_timeout, clock=runtime.clock
        )
        ruling = _Ruling(batch, capability.view, runtime)
        if not batch:
            detail = "no policy; idempotency key if one is given"
            return CoreStep(ruling.claim, None, detail, seldom=True)
        detail = f"policies: {', '.join(batch.names)}; idempotency key"
        return CoreStep(ruling.run, None, detail, piece=ruling.piece)


class _Ruling:
    __slots__ = ("_batch", "_runtime", "_unserved", "_view")

    def __init__(self, batch: PolicyBatch, view: CapabilityView, runtime: Runtime) -> None:
        self._view = view
        self._batch = batch
        self._runtime = runtime
        self._unserved = FailureStage.APPROVAL in runtime.removed

    def run(self, call: Call) -> Awaitable[None] | CapabilityError | None:
        return self._heed(call, self._batch.rule(call, self._view))

    def piece(self) -> Piece:
        names: dict[str, object] = {
            "PolicyRequest": PolicyRequest,
            "ALLOW": ALLOW,
            "CapabilityError": CapabilityError,
            "contained": contained,
            "engine_clock": self._runtime.clock,
            "view": self._view,
            "patience": self._batch.seconds,
            "policies": self._batch.numbered,
            "rule_on": self._batch.rule_on,
            "heed": self._heed,
            "allowed": self._batch.clear.records,
        }
        return Piece(_ASKED, names)

    def _heed(
        self, call: Call, ruling: Ruling | Awaitable[Ruling]
    ) -> Awaitable[None] | CapabilityError | None:
        if type(ruling) is Ruling:
            refused = self._take(call, ruling)
            if refused is not None:
                return refused
        else:
            return self._run_on(call, ruling)
        return self.claim(call) if call.request.idempotency_key is not None else None

    async def _run_on(self, call: Call, pending: Awaitable[Ruling]) -> None:
        refused = self._take(call, await pending)
        if refused is not None:
            raise refused
        claiming = self.claim(call)
        if claiming is not None:
            await claiming

    def _take(self, call: Call, ruling: Ruling) -> CapabilityError | None:
        refused = take_ruling(call, ruling, self._runtime)
        if refused is None and call.requirements and self._unserved:
            # Nobody in this pipeline would ask for it.
            call.denial = "policy-failed"
            return refusal(ErrorCode.POLICY_FAILED, reason="the pipeline has no approval stage")
        return refused

    def claim(self, call: Call) -> Awaitable[None] | None:
        if call.request.idempotency_key is None or call.dry_run:
            return None
        return claim(call, self._runtime)


def take_ruling(call: Call, ruling: Ruling, runtime: Runtime) -> CapabilityError | None:
    """Put a ruling on record and report every policy that broke.

    Returns:
        The refusal where it refuses, at stage policy, whatever the phase; what needs approval is
        left to its stage.
    """
    call.decisions += ruling.records
    if ruling.broken:
        # The first to break is the cause of POLICY_FAILED, which the ending reports.
        told = 1 if ruling.verdict is Verdict.ERROR and not call.dry_run else 0
        report_broken(call, ruling.broken[told:], runtime)
    if ruling.verdict is Verdict.REQUIRE_APPROVAL:
        call.requirements += ruling.requirements
    elif ruling.verdict is not Verdict.ALLOW:
        return _refusal(call, ruling)
    return None


def report_broken(
    call: Call, broken: Iterable[tuple[str, BaseException]], runtime: Runtime
) -> None:
    """Report policies that broke, each as a failure of its own: the outcome may conceal them."""
    for name, cause in broken:
        error = refusal(ErrorCode.POLICY_FAILED, cause, reason=name)
        runtime.report(seal(error, call.execution_id, Effect.NONE))


def _refusal(call: Call, ruling: Ruling) -> CapabilityError:
    decision = ruling.decision
    if ruling.verdict is Verdict.HIDE:
        call.denial = "hidden"
        return CapabilityError(ErrorCode.CAPABILITY_NOT_FOUND, stage=FailureStage.POLICY)
    if ruling.verdict is Verdict.DENY and decision is not None:
        call.denial = "policy-denied"
        call.deny_reason = decision.reason
        return refusal(
            ErrorCode.POLICY_DENIED,
            message=decision.message,
            reason=decision.reason,
            execution_id=call.execution_id,
        )
    call.denial = "policy-failed"
    return refusal(ErrorCode.POLICY_FAILED, ruling.first_broken())
