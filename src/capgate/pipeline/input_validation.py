"""The claimed input becomes the one value that executes.

On resume the value is restored from the approved record instead, after the record's own checks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from capgate.approvals import check_resumable, intact
from capgate.capability import ContractViolation, input_hash
from capgate.errors import CapabilityError, ErrorCode, FailureStage
from capgate.pipeline.identity import identify
from capgate.pipeline.stage import CoreStage, CoreStep
from capgate.pipeline.weaving import Piece, filled

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.approvals import ApprovalRecord
    from capgate.call import Call
    from capgate.capability import Refuse
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime


_VALIDATED: Final = """\
refusing = None
{validate}
if refusing is not None:
    await refusing
call.validated = True
"""
_CALLED: Final = """\
try:
    call.value = validate_input(call.claimed)
except ContractViolation as violation:
    refusing = refuse_input(call, violation)
"""
# What `validate_input` does where one look is enough.
_IN_PLACE: Final = """\
raw = call.claimed
try:
    call.value = judge_input(raw if type(raw) in honest_input else admit_input(raw))
except Exception as error:
    refusing = refuse_raw_input(call, error)
"""
_HASHED: Final = "call.input_hash = hash_of(call)\n"


class InputValidation(CoreStage):
    """Validates against the contract and the JSON boundary."""

    name = FailureStage.INPUT_VALIDATION.value
    failure_stage = FailureStage.INPUT_VALIDATION

    def prepare(self, capability: Enrolled, runtime: Runtime) -> CoreStep:
        """Bind the contract."""
        validating = _Validating(capability, runtime)
        return CoreStep(
            validating.run,
            validating.restore,
            "input contract and JSON boundary",
            piece=validating.piece,
        )


class _Validating:
    __slots__ = ("_capability", "_contract", "_public", "_runtime", "_validate")

    def __init__(self, capability: Enrolled, runtime: Runtime) -> None:
        self._capability = capability
        self._contract = capability.definition.contract
        self._validate = capability.definition.contract.validate_input
        self._public = capability.view.access == "public"
        self._runtime = runtime

    def run(self, call: Call) -> Awaitable[None] | None:
        validate = self._validate
        try:
            call.value = validate(call.claimed)
        except ContractViolation as violation:
            return self._refuse(call, violation)
        call.validated = True
        if self._runtime.hash_inputs:
            call.input_hash = hash_of(call)
        return None

    def piece(self) -> Piece:
        hashed = _HASHED if self._runtime.hash_inputs else ""
        judging = self._contract.judge_input
        names: dict[str, object] = {"hash_of": hash_of}
        if judging is None:
            names |= {"validate_input": self._validate, "refuse_input": self._refuse}
            names |= {"ContractViolation": ContractViolation}
            return Piece(filled(_VALIDATED, validate=_CALLED) + hashed, names)
        refuse = partial(self._refuse_raw, judging.refuse)
        names |= {"judge_input": judging.run, "refuse_raw_input": refuse}
        names |= {"honest_input": judging.honest, "admit_input": judging.admit}
        return Piece(filled(_VALIDATED, validate=_IN_PLACE) + hashed, names)

    def _refuse_raw(self, refuse: Refuse, call: Call, error: Exception) -> Awaitable[None]:
        try:
            refuse(call.claimed, error)
        except ContractViolation as violation:
            return self._refuse(call, violation)

    async def _refuse(self, call: Call, violation: ContractViolation) -> None:
        """Name the issues, but only to a caller that authentication would let through."""
        pending = identify(call, self._runtime)
        if pending is not None:
            await pending
        details = None
        known = call.identity is not None and call.identity.kind != "anonymous"
        if call.identity_error is None and (self._public or known):
            details = {"issues": violation.issues}
        raise CapabilityError(ErrorCode.INPUT_INVALID, details=details) from violation

    def restore(self, call: Call) -> None:
        """Take the approved value: the record must be usable, whole and of today's contract."""
        record = call.approval
        if record is None:
            raise LookupError("resume without an approval record")
        check_resumable(record, self._runtime.clock.now())
        self._check_integrity(record)
        try:
            call.value = self._contract.restore_input(record.input)
            restored = input_hash(self._contract.dump_input(call.value))
        except ContractViolation as violation:
            raise CapabilityError(ErrorCode.INPUT_INVALID) from violation
        if restored != record.input_hash:
            raise CapabilityError(ErrorCode.APPROVAL_INPUT_MISMATCH, reason="restored differently")
        call.validated = True
        call.input_hash = record.input_hash

    def _check_integrity(self, record: ApprovalRecord) -> None:
        config = self._runtime.approvals
        if not intact(record, config.keys):
            raise CapabilityError(ErrorCode.APPROVAL_INPUT_MISMATCH, reason="record altered")
        if config.contract == "exact" and record.contract != self._capability.view.fingerprint:
            raise CapabilityError(ErrorCode.APPROVAL_INPUT_MISMATCH, reason="contract changed")


def hash_of(call: Call) -> str | None:
    """Return the hash of the validated input, None when it has no canonical form."""
    if call.form is None:
        return None
    try:
        return input_hash(call.form.dump_input(call.value))
    except (ContractViolation, ValueError):
        return None
