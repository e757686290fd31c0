"""What can go wrong at the desk and may be said aloud.

Each class is part of a capability's contract: its message and code reach the caller. Anything
else a handler raises stays private.
"""

from __future__ import annotations

from capgate import DomainError, Effect


class NotFoundError(DomainError):
    """The row that the call names does not exist."""

    code = "NOT_FOUND"
    message = "There is no such record."
    effect = Effect.NONE


class NotRefundableError(DomainError):
    """Less than the wanted amount is left to give back."""

    code = "NOT_REFUNDABLE"
    message = "This order cannot be refunded by that amount."
    effect = Effect.NONE
    public_details = True


class NotCancellableError(DomainError):
    """The order is past the point of cancelling."""

    code = "NOT_CANCELLABLE"
    message = "This order can no longer be cancelled."
    effect = Effect.NONE
    public_details = True


class NotCapturableError(DomainError):
    """The payment is not waiting to be captured."""

    code = "NOT_CAPTURABLE"
    message = "This payment is not waiting to be captured."
    effect = Effect.NONE


class CourierBusyError(DomainError):
    """The courier asks us to try again."""

    code = "COURIER_BUSY"
    message = "The courier is busy; try again."
    retryable = True
    effect = Effect.NONE


class GatewayTimeoutError(DomainError):
    """The payment gateway did not answer; the money may have moved."""

    code = "GATEWAY_TIMEOUT"
    message = "The payment gateway did not answer in time."
    retryable = True
    effect = Effect.UNKNOWN
