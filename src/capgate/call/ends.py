"""What a call that has ended gives its caller: an outcome, or an output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from capgate.call.outcome import ApprovalRequired, Cancelled, Completed, Failed
from capgate.errors import ErrorCode

if TYPE_CHECKING:
    from capgate.call.invocation import Call
    from capgate.call.outcome import Outcome

_STOPPED: Final = frozenset({ErrorCode.TIMEOUT, ErrorCode.CANCELLED})


def outcome_of(call: Call) -> Outcome[Any]:
    """Return the one outcome of a call that has ended."""
    error = call.error
    if error is not None:
        kind = Cancelled if error.code in _STOPPED else Failed
        return kind(error.execution_id or call.execution_id, error, call.effect)
    if call.suspended is not None:
        return ApprovalRequired(call.execution_id, call.suspended.copy())
    first_id = call.execution_id if call.replay is None else call.replay.execution_id
    return Completed(
        first_id, call.output, call.effect, call.attempts, late=call.late, replayed=call.replayed
    )


def output_of(call: Call) -> Any:
    """Return the output of a call that has ended.

    Raises:
        CapabilityError: It did not complete.
    """
    error = call.error
    if error is not None:
        raise error
    return call.output if call.suspended is None else outcome_of(call).unwrap()
