"""The true output against its contract, then redaction, then the contract again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from capgate.call import Overrun, Stray, call_bounded
from capgate.capability import ContractViolation
from capgate.errors import CapabilityError, ErrorCode, FailureStage
from capgate.pipeline.stage import CoreStage, CoreStep
from capgate.pipeline.weaving import Piece

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from capgate.call import Argument, Call
    from capgate.capability import Refuse
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime


_CHECKED: Final = """\
try:
    call.output = validate_output(call.output)
except ContractViolation as violation:
    raise withheld(call) from violation
"""
# What `validate_output` does where one look is enough.
_IN_PLACE: Final = """\
raw = call.output
withholding = None
try:
    call.output = judge_output(raw if type(raw) in honest_output else admit_output(raw))
except Exception as error:
    withholding = withhold_raw(call, error)
if withholding is not None:
    raise withholding
"""


class OutputValidation(CoreStage):
    """Withholds what breaks the contract; shows what redaction leaves."""

    name = FailureStage.OUTPUT_VALIDATION.value
    failure_stage = FailureStage.OUTPUT_VALIDATION

    def prepare(self, capability: Enrolled, runtime: Runtime) -> CoreStep:
        """Bind the contract and the redaction."""
        checking = _Checking(capability, runtime.policy_timeout)
        detail = "output contract and JSON boundary"
        if checking.redacts:
            return CoreStep(checking.run, checking.run, f"{detail}, redacted")
        return CoreStep(checking.run, checking.run, detail, piece=checking.piece)


class _Checking:
    __slots__ = ("_judging", "_redact", "_seconds", "_validate")

    def __init__(self, capability: Enrolled, seconds: float) -> None:
        redact = capability.definition.redact
        self._redact: Callable[..., object] | None = None if redact is None else redact.output
        self._validate = capability.definition.contract.validate_output
        self._judging = capability.definition.contract.judge_output
        self._seconds = seconds

    def piece(self) -> Piece:
        judging = self._judging
        if judging is None:
            names: dict[str, object] = {"validate_output": self._validate, "withheld": _withheld}
            return Piece(_CHECKED, names | {"ContractViolation": ContractViolation})
        withhold = partial(_withhold_raw, judging.refuse)
        names = {"judge_output": judging.run, "withhold_raw": withhold}
        names |= {"honest_output": judging.honest, "admit_output": judging.admit}
        return Piece(_IN_PLACE, names)

    @property
    def redacts(self) -> bool:
        return self._redact is not None

    def run(self, call: Call) -> Awaitable[None] | None:
        validate = self._validate
        try:
            call.output = validate(call.output)
        except ContractViolation as violation:
            raise _withheld(call) from violation
        if self._redact is None:
            return None
        return self._redacted(call, self._redact)

    async def _redacted(self, call: Call, redact: Callable[..., object]) -> None:
        true, call.output = call.output, None
        try:
            shown: Argument = await call_bounded(redact, true, seconds=self._seconds)
            call.output = self._validate(shown)
        except (Overrun, Stray, Exception) as error:
            raise _withheld(call) from error


def _withhold_raw(refuse: Refuse, call: Call, error: Exception) -> CapabilityError:
    try:
        refuse(call.output, error)
    except ContractViolation as violation:
        withheld = _withheld(call)
        withheld.__cause__ = withheld.__context__ = violation
        return withheld


def _withheld(call: Call) -> CapabilityError:
    call.output = None
    return CapabilityError(ErrorCode.OUTPUT_INVALID)
