"""May this actor call this capability? The access rule, then the engine's authorizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from capgate.capability import AccessRequest
from capgate.errors import CapabilityError, ErrorCode, FailureStage, refusal
from capgate.pipeline.stage import CoreStage, CoreStep, Skip
from capgate.pipeline.weaving import Piece
from capgate.policies import ask_rule, refused

if TYPE_CHECKING:
    from capgate.call import Call
    from capgate.capability import AccessRule
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime


_KNOWN: Final = """\
if call.actor.kind == "anonymous":
    refuse_anonymous(call)
"""


class Authorization(CoreStage):
    """Asks the capability's access rule, then `Engine(authorize=…)`."""

    name = FailureStage.AUTHORIZATION.value
    failure_stage = FailureStage.AUTHORIZATION

    def prepare(self, capability: Enrolled, runtime: Runtime) -> CoreStep | Skip:
        """Bind the rules that apply."""
        access = capability.view.access
        rules: list[AccessRule] = [] if isinstance(access, str) else [access]
        if runtime.authorize is not None:
            rules.append(runtime.authorize)
        if rules:
            seconds = runtime.policy_timeout
            asking = _Asking(tuple(rules), seconds, known=access == "authenticated")
            detail = f"{len(rules)} access rule(s), {seconds:g} s each"
            return CoreStep(asking.run, asking.run, detail)
        if access == "public":
            return Skip("public, and the engine has no authorizer")
        detail = "any authenticated actor"
        return CoreStep(_refuse_anonymous, _refuse_anonymous, detail, piece=_refusing)


def _refuse_anonymous(call: Call) -> None:
    if call.actor.kind == "anonymous":
        call.denial = "unauthenticated"
        raise refusal(ErrorCode.UNAUTHENTICATED)


def _refusing() -> Piece:
    return Piece(_KNOWN, {"refuse_anonymous": _refuse_anonymous})


class _Asking:
    __slots__ = ("_known", "_rules", "_seconds")

    def __init__(self, rules: tuple[AccessRule, ...], seconds: float, *, known: bool) -> None:
        self._rules = rules
        self._seconds = seconds
        self._known = known

    async def run(self, call: Call) -> None:
        try:
            if self._known and call.actor.kind == "anonymous":
                raise refused(call.actor)
            for rule in self._rules:
                pending = ask_rule(rule, _request(call), seconds=self._seconds, call=call)
                if pending is not None:
                    await pending
        except CapabilityError as error:
            anonymous = error.code is ErrorCode.UNAUTHENTICATED
            call.denial = "unauthenticated" if anonymous else "forbidden"
            raise


def _request(call: Call) -> AccessRequest:
    return AccessRequest(
        capability_id=call.capability_id,
        surface=call.surface,
        actor=call.shown_actor(),
        deps=call.deps,
        input=call.copy_input(),
        arguments=call.arguments(),
    )
