"""The trust boundary: the one function that makes what a client sees of a failure.

Nothing else in the library builds error text for the outside, and nothing here decides what an
error means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from capgate.errors.codes import GENERIC_MESSAGE, ErrorCode
from capgate.errors.foreign import JSON, contained, json_copy, plain_text
from capgate.errors.reading import record_of

if TYPE_CHECKING:
    from capgate.errors.error import Record


def public_error(error: object) -> dict[str, JSON]:
    """The public shape of an error: one of exactly two; it never raises.

    Returns:
        A fresh plain dict. Exposed: `code`, `message`, `retryable`, and `details` for
        INPUT_INVALID or a `DomainError` that opted in. Anything else, or an error that cannot be
        read or serialised as a whole: the generic shape.
    """
    record = record_of(error)
    shape = _exposed(record) if record is not None and record.exposed else None
    return _generic() if shape is None else shape


def _exposed(record: Record) -> dict[str, JSON] | None:
    if plain_text(record.public_message) is None:
        return None
    shape: dict[str, JSON] = {
        "code": record.code.value,
        "message": record.public_message,
        "retryable": record.retryable,
    }
    if record.code is not ErrorCode.INPUT_INVALID and not record.public_details:
        return shape
    details = None if record.details_dropped else contained(lambda: [_details(record)])
    if details is None:
        return None
    return shape if details[0] is None else {**shape, "details": details[0]}


def _details(record: Record) -> JSON:
    details = json_copy(record.details)
    if not record.public_details:
        return details
    if isinstance(details, dict):
        fields = cast("dict[str, JSON]", details)
    else:
        fields = {} if details is None else {"details": details}
    # Last, so that the author's code wins over a detail that is also called "reason".
    return {**fields, "reason": json_copy(record.reason)}


def _generic() -> dict[str, JSON]:
    return {
        "code": ErrorCode.INTERNAL_ERROR.value,
        "message": GENERIC_MESSAGE,
        "retryable": False,
    }
