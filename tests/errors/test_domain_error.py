"""What authors raise: `DomainError` and its defaults."""

from __future__ import annotations

import copy
import pickle

import pytest

from capgate.errors import DomainError, Effect, Forbidden, normalize


class OutOfStockError(DomainError):
    message = "No stock."


class HTTPQuotaError(DomainError):
    pass


class NamedError(DomainError):
    code = "BILLING"


class NamedChildError(NamedError):
    pass


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (OutOfStockError, "OUT_OF_STOCK_ERROR"),
        (HTTPQuotaError, "HTTP_QUOTA_ERROR"),
        (NamedError, "BILLING"),
        (NamedChildError, "BILLING"),
        (DomainError, "DOMAIN_ERROR"),
    ],
)
def test_the_default_code_is_the_class_name_in_upper_snake(kind, code):
    """A code that a class or its base sets wins over the class name."""
    assert kind.code == kind().code == code


def test_a_domain_error_is_cautious_by_default():
    """Not retryable, effect unknown, no public details, a generic text."""
    error = DomainError()
    assert (error.retryable, error.effect, error.public_details) == (False, Effect.UNKNOWN, False)
    assert (error.details, str(error)) == (None, "The operation failed.")


def test_an_instance_may_say_more_than_its_class():
    """A message and details given to the instance win over the class's."""
    error = OutOfStockError("Two left.", details={"left": 2})
    assert (error.message, str(error), error.details) == ("Two left.", "Two left.", {"left": 2})
    assert str(OutOfStockError()) == OutOfStockError.message == "No stock."


def test_the_authors_constructor_may_look_different():
    """A subclass that never calls its base constructor still speaks its class's words."""

    class LimitError(DomainError):
        message = "Too many."

        def __init__(self, limit):
            self.limit = limit

    error = normalize(LimitError(5), declared=None, exceptions={}, effect=Effect.UNKNOWN)
    assert (error.public_message, error.reason, error.exposed) == ("Too many.", "LIMIT_ERROR", True)


def test_a_message_may_be_computed():
    """A property is a legitimate way to word a message."""

    class LimitError(DomainError):
        def __init__(self, limit):
            self.limit = limit

        @property
        def message(self):
            return f"At most {self.limit}."

    error = normalize(LimitError(5), declared=None, exceptions={}, effect=Effect.UNKNOWN)
    assert error.public_message == "At most 5."


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
@pytest.mark.parametrize(
    "error",
    [OutOfStockError("Two left.", details={"left": 2}), OutOfStockError(), Forbidden("No.")],
)
def test_authors_errors_copy_and_pickle(error, duplicate):
    """They cross process pools with message and details."""
    again = duplicate(error)
    assert (type(again), str(again), again.args) == (type(error), str(error), error.args)
    assert again.__dict__ == error.__dict__


def test_details_are_captured_when_the_error_is_normalised():
    """The author's later changes do not reach what was reported."""
    details = {"left": [2]}
    raised = OutOfStockError(details=details)
    error = normalize(raised, declared=None, exceptions={}, effect=Effect.UNKNOWN)
    details["left"].append("later")
    assert error.details == {"left": [2]}
