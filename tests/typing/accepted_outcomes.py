"""What both checkers infer of outcomes and errors. Never run."""

from __future__ import annotations

from typing import Any, assert_never, assert_type

from capgate import (
    Actor,
    ApprovalRequired,
    Cancelled,
    CapabilityError,
    Completed,
    Effect,
    Engine,
    ErrorCode,
    Failed,
    FailureStage,
    Outcome,
    public_error,
)
from capgate.approvals import ApprovalRecord

engine = Engine("shop")


@engine.capability
async def count(text: str) -> int:
    """Count."""
    return len(text)


async def matched() -> str:
    """`match` narrows to each of the four, and they are all there is."""
    outcome = await engine.attempt(count, {"text": "a"}, actor=Actor("u"))
    assert_type(outcome, Outcome[int])
    match outcome:
        case Completed(output=output):
            assert_type(output, int)
            return "completed"
        case ApprovalRequired(approval=record):
            assert_type(record, ApprovalRecord)
            return record.id
        case Failed(error=error) | Cancelled(error=error):
            assert_type(error, CapabilityError)
            return error.public_message
        case _:
            assert_never(outcome)


async def by_position() -> int:
    """Outcomes match by position too."""
    match await engine.attempt(count):
        case Completed(execution_id, output):
            assert_type(execution_id, str)
            return output
        case _:
            return 0


async def unwrapped() -> None:
    """`unwrap()` is the output's type: the other outcomes raise."""
    outcome = await engine.attempt(count, {"text": "a"})
    assert_type(outcome.unwrap(), int)
    assert_type(outcome.execution_id, str)
    assert_type(outcome.effect, Effect)
    if isinstance(outcome, Completed):
        assert_type(outcome.output, int)
        assert_type(outcome.attempts, int)
        assert_type(outcome.late, bool)
        assert_type(outcome.replayed, bool)
    if outcome.status == "failed":
        assert_type(outcome, Failed)
    wider: Outcome[int | str] = outcome
    assert_type((await engine.attempt("count")).unwrap(), Any)
    del wider


def errors(error: CapabilityError) -> None:
    """An error's fields have their types."""
    assert_type(error.code, ErrorCode)
    assert_type(error.stage, FailureStage)
    assert_type(error.effect, Effect)
    assert_type(error.retryable, bool)
    assert_type(error.approval_id, str | None)
    assert_type(public_error(error), dict[str, Any])
