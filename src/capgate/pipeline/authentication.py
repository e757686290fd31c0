"""Is there an identity, and is it well formed? Resolving it is in `identity.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from capgate.call import Actor, call_bounded, capture
from capgate.errors import CapabilityError, ErrorCode, FailureStage, refusal
from capgate.pipeline.identity import identify
from capgate.pipeline.stage import CoreStage, CoreStep
from capgate.pipeline.weaving import Piece

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.call import Call
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime


_JUDGED: Final = """\
if call.identity is None:
    judging = judge_identity(call)
    if judging is not None:
        await judging
"""


class Authentication(CoreStage):
    """Judges the identity that was captured at entry or that the credentials prove."""

    name = FailureStage.AUTHENTICATION.value
    failure_stage = FailureStage.AUTHENTICATION

    def prepare(self, capability: Enrolled, runtime: Runtime) -> CoreStep:
        """Bind to the capability's access: only a public one takes a missing actor."""
        judge = _Judge(runtime, public=capability.view.access == "public")
        detail = "an identity is present and well formed"
        return CoreStep(judge.run, judge.resume, detail, piece=judge.piece)


class _Judge:
    __slots__ = ("_public", "_runtime")

    def __init__(self, runtime: Runtime, *, public: bool) -> None:
        self._runtime = runtime
        self._public = public

    def run(self, call: Call) -> Awaitable[None] | None:
        if call.identity is not None:
            return None
        pending = identify(call, self._runtime)
        if pending is not None:
            return self._after(pending, call)
        self._judge(call)
        return None

    def piece(self) -> Piece:
        return Piece(_JUDGED, {"judge_identity": self.run})

    async def _after(self, pending: Awaitable[None], call: Call) -> None:
        await pending
        self._judge(call)

    def _judge(self, call: Call) -> None:
        error = call.identity_error
        if error is not None:
            if not isinstance(error, CapabilityError):
                error = _unauthenticated(call, error)
            if error.code is ErrorCode.UNAUTHENTICATED:
                call.denial = "unauthenticated"
            raise error
        if call.identity is None:
            if not self._public:
                raise _unauthenticated(call, None)
            call.identity = call.actor = Actor.anonymous()

    async def resume(self, call: Call) -> None:
        """Establish the original requester as of today."""
        if call.identity is not None:
            return
        record = call.approval
        if record is None:
            raise LookupError("resume without an approval record")
        load = self._runtime.approvals.load_actor
        actor: Actor | None = record.actor
        if load is not None:
            seconds = self._runtime.policy_timeout
            try:
                actor = await call_bounded(load, record.actor, seconds=seconds, call=call)
            except Exception as error:
                raise CapabilityError(
                    ErrorCode.INTERNAL_ERROR, stage=FailureStage.AUTHENTICATION
                ) from error
        if actor is None:
            raise _unauthenticated(call, None)
        today = capture(actor)
        if today != record.actor:
            # A broken directory: nobody ever executes as somebody else.
            raise CapabilityError(
                ErrorCode.INTERNAL_ERROR,
                stage=FailureStage.AUTHENTICATION,
                reason="load_actor answered another actor",
            )
        call.identity = call.actor = today


def _unauthenticated(call: Call, cause: BaseException | None) -> CapabilityError:
    call.denial = "unauthenticated"
    return refusal(ErrorCode.UNAUTHENTICATED, cause)
