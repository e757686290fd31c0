"""The table of failures: every code with its fixed facts, as data.

Nothing here builds, reads or translates an error; the other modules of this room do.
A code's meaning is never repurposed; new codes may be added.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

GENERIC_MESSAGE: Final = "The operation failed."


class ErrorCode(StrEnum):
    """The stable, machine-readable name of a failure."""

    # The text's own, which is what codes compare by: an enumeration's is several times as slow.
    __hash__ = str.__hash__

    CAPABILITY_NOT_FOUND = "CAPABILITY_NOT_FOUND"
    INPUT_INVALID = "INPUT_INVALID"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    POLICY_DENIED = "POLICY_DENIED"
    POLICY_FAILED = "POLICY_FAILED"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    APPROVAL_PENDING = "APPROVAL_PENDING"
    APPROVAL_REJECTED = "APPROVAL_REJECTED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    APPROVAL_CONSUMED = "APPROVAL_CONSUMED"
    APPROVAL_CANCELLED = "APPROVAL_CANCELLED"
    APPROVAL_NOT_PENDING = "APPROVAL_NOT_PENDING"
    APPROVAL_INPUT_MISMATCH = "APPROVAL_INPUT_MISMATCH"
    APPROVAL_SELF_APPROVAL = "APPROVAL_SELF_APPROVAL"
    APPROVAL_UNSERIALIZABLE_INPUT = "APPROVAL_UNSERIALIZABLE_INPUT"
    APPROVAL_NOT_FOUND = "APPROVAL_NOT_FOUND"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    OUTPUT_INVALID = "OUTPUT_INVALID"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    APPROVAL_UNAVAILABLE = "APPROVAL_UNAVAILABLE"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    AUDIT_UNAVAILABLE = "AUDIT_UNAVAILABLE"
    RATE_LIMITED = "RATE_LIMITED"
    ADAPTER_ERROR = "ADAPTER_ERROR"
    INTERNAL_ERROR = "INTERNAL_ERROR"


class FailureStage(StrEnum):
    """The place in the pipeline that a failure belongs to."""

    DISCOVERY = "discovery"
    INPUT_VALIDATION = "input-validation"
    AUTHENTICATION = "authentication"
    AUTHORIZATION = "authorization"
    POLICY = "policy"
    APPROVAL = "approval"
    EXECUTION = "execution"
    OUTPUT_VALIDATION = "output-validation"
    TIMEOUT = "timeout"
    CANCELLATION = "cancellation"
    ADAPTER = "adapter"


class ErrorCategory(StrEnum):
    """The coarse taxonomy of seven codes that every `ErrorCode` falls into."""

    CAPABILITY_NOT_FOUND = "CAPABILITY_NOT_FOUND"
    INPUT_INVALID = "INPUT_INVALID"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    OUTPUT_INVALID = "OUTPUT_INVALID"
    CANCELLED = "CANCELLED"
    EXECUTION_FAILED = "EXECUTION_FAILED"


class Effect(StrEnum):
    """What is known about the handler's side effect once a call has ended.

    `none`: the handler was never entered. `done`: it returned. `unknown`: it was entered and
    did not return, so a repeat may double the effect.
    """

    NONE = "none"
    DONE = "done"
    UNKNOWN = "unknown"


class CodeRule(NamedTuple):
    """The facts that a code carries unless its error says otherwise."""

    stage: FailureStage
    retryable: bool
    exposed: bool
    category: ErrorCategory
    message: str


def _shown(
    stage: FailureStage, category: ErrorCategory, message: str, *, retryable: bool = False
) -> CodeRule:
    return CodeRule(stage, retryable, exposed=True, category=category, message=message)


def _concealed(
    stage: FailureStage,
    category: ErrorCategory = ErrorCategory.EXECUTION_FAILED,
    *,
    retryable: bool = False,
) -> CodeRule:
    return CodeRule(stage, retryable, exposed=False, category=category, message=GENERIC_MESSAGE)


_S = FailureStage
_C = ErrorCategory
_E = ErrorCode

# EXECUTION_FAILED takes retryable and exposed from the error; INTERNAL_ERROR takes the stage it
# broke in; IDEMPOTENCY_CONFLICT is retryable while the first call runs. These are their defaults.
TABLE: Final[Mapping[ErrorCode, CodeRule]] = MappingProxyType(
    {
        _E.CAPABILITY_NOT_FOUND: _shown(
            _S.DISCOVERY, _C.CAPABILITY_NOT_FOUND, "There is no such capability."
        ),
        _E.INPUT_INVALID: _shown(_S.INPUT_VALIDATION, _C.INPUT_INVALID, "The input is not valid."),
        _E.UNAUTHENTICATED: _shown(
            _S.AUTHENTICATION, _C.UNAUTHENTICATED, "Authentication is required."
        ),
        _E.FORBIDDEN: _shown(_S.AUTHORIZATION, _C.FORBIDDEN, "This operation is not allowed."),
        _E.POLICY_DENIED: _shown(_S.POLICY, _C.FORBIDDEN, "A policy denied this operation."),
        _E.POLICY_FAILED: _concealed(_S.POLICY),
        _E.APPROVAL_REQUIRED: _shown(
            _S.APPROVAL, _C.FORBIDDEN, "This operation needs an approval."
        ),
        _E.APPROVAL_PENDING: _shown(
            _S.APPROVAL, _C.FORBIDDEN, "The approval is not decided yet.", retryable=True
        ),
        _E.APPROVAL_REJECTED: _shown(_S.APPROVAL, _C.FORBIDDEN, "The approval was rejected."),
        _E.APPROVAL_EXPIRED: _shown(_S.APPROVAL, _C.FORBIDDEN, "The approval has expired."),
        _E.APPROVAL_CONSUMED: _shown(
            _S.APPROVAL, _C.FORBIDDEN, "The approval has already been used."
        ),
        _E.APPROVAL_CANCELLED: _shown(_S.APPROVAL, _C.FORBIDDEN, "The approval was withdrawn."),
        _E.APPROVAL_NOT_PENDING: _shown(
            _S.APPROVAL, _C.FORBIDDEN, "The approval is no longer pending."
        ),
        _E.APPROVAL_INPUT_MISMATCH: _concealed(_S.APPROVAL),
        _E.APPROVAL_SELF_APPROVAL: _shown(
            _S.APPROVAL, _C.FORBIDDEN, "Requesters cannot approve their own requests."
        ),
        _E.APPROVAL_UNSERIALIZABLE_INPUT: _concealed(_S.APPROVAL),
        _E.APPROVAL_NOT_FOUND: _shown(
            _S.APPROVAL, _C.CAPABILITY_NOT_FOUND, "There is no such approval."
        ),
        _E.EXECUTION_FAILED: _concealed(_S.EXECUTION),
        _E.OUTPUT_INVALID: _concealed(_S.OUTPUT_VALIDATION, _C.OUTPUT_INVALID),
        _E.TIMEOUT: _shown(
            _S.TIMEOUT, _C.CANCELLED, "The operation took too long.", retryable=True
        ),
        _E.CANCELLED: _shown(_S.CANCELLATION, _C.CANCELLED, "The operation was cancelled."),
        _E.APPROVAL_UNAVAILABLE: _concealed(_S.APPROVAL, retryable=True),
        _E.IDEMPOTENCY_CONFLICT: _shown(
            _S.POLICY, _C.INPUT_INVALID, "This idempotency key is already in use."
        ),
        _E.AUDIT_UNAVAILABLE: _concealed(_S.EXECUTION, retryable=True),
        _E.RATE_LIMITED: _shown(
            _S.POLICY, _C.FORBIDDEN, "Too many requests; try again later.", retryable=True
        ),
        _E.ADAPTER_ERROR: _concealed(_S.ADAPTER),
        _E.INTERNAL_ERROR: _concealed(_S.EXECUTION),
    }
)
