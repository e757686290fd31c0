"""From outcomes to HTTP answers: the one place of the service that knows status codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fastapi.responses import JSONResponse
from pydantic_core import to_jsonable_python

from capgate import (
    ApprovalRequired,
    Cancelled,
    Completed,
    ErrorCode,
    Failed,
    Outcome,
    public_approval,
    public_error,
)

CONFLICT: Final = 409
BROKEN: Final = 500
# What is not listed is a conflict when it is about an approval, else a breakdown. The status is
# looked up by the public code, so it cannot tell more than the body does.
STATUS: Final[Mapping[str, int]] = {
    ErrorCode.CAPABILITY_NOT_FOUND: 404,
    ErrorCode.APPROVAL_NOT_FOUND: 404,
    ErrorCode.INPUT_INVALID: 422,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.POLICY_DENIED: 403,
    ErrorCode.APPROVAL_SELF_APPROVAL: 403,
    ErrorCode.EXECUTION_FAILED: 422,
    ErrorCode.IDEMPOTENCY_CONFLICT: 409,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.CANCELLED: 499,
    ErrorCode.TIMEOUT: 504,
}


def answer(outcome: Outcome[object]) -> JSONResponse:
    """Return what a client gets for an outcome."""
    match outcome:
        case Completed(output=output):
            return JSONResponse(to_jsonable_python(output))
        case ApprovalRequired(approval=record):
            headers = {"Location": f"/approvals/{record.id}"}
            return JSONResponse(public_approval(record), status_code=202, headers=headers)
        case Failed(error=error) | Cancelled(error=error):
            return refusal(error)


def refusal(error: Exception) -> JSONResponse:
    """Return the public shape of a governed failure, with its status."""
    shape = public_error(error)
    code = shape["code"]
    status = STATUS.get(code, CONFLICT if code.startswith("APPROVAL_") else BROKEN)
    headers = {"WWW-Authenticate": "Bearer"} if code == ErrorCode.UNAUTHENTICATED else None
    return JSONResponse(shape, status_code=status, headers=headers)
