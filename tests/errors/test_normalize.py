"""The normaliser, row by row: what escaped from a handler, and what it becomes."""

from __future__ import annotations

import asyncio

import pytest

from capgate.errors import (
    CapabilityError,
    DomainError,
    Effect,
    FailureStage,
    Forbidden,
    Unauthenticated,
    class_failure,
    normalize,
    public_error,
    stamp,
)
from capgate.errors.declared import Declared


class OutOfStockError(DomainError):
    message = "No stock."
    retryable = True


class SoldOutError(OutOfStockError):
    message = "Sold out."
    effect = Effect.NONE


class OtherError(DomainError):
    message = "secret"
    retryable = True


def normal(raised, declared=None, exceptions=None, effect=Effect.UNKNOWN):
    return normalize(raised, declared=declared, exceptions=exceptions or {}, effect=effect)


def concealed(error, cause):
    """Is it the one shape of everything that nobody declared?"""
    return (
        (error.code, error.stage, error.public_message)
        == ("EXECUTION_FAILED", "execution", "The operation failed.")
        and not error.exposed
        and not error.retryable
        and error.details is None
        and error.__cause__ is cause
    )


@pytest.mark.parametrize(
    ("raised", "code", "stage"),
    [
        (Unauthenticated("Sign in."), "UNAUTHENTICATED", "authentication"),
        (Forbidden("Not yours."), "FORBIDDEN", "authorization"),
    ],
)
def test_a_refusal_by_the_handler_keeps_its_stage_message_and_cause(raised, code, stage):
    """`Unauthenticated` and `Forbidden` become their codes, exposed."""
    error = normal(raised)
    assert (error.code, error.stage, error.exposed) == (code, stage, True)
    assert error.public_message == str(raised)
    assert (error.effect, error.retryable) == ("unknown", False)
    assert error.__cause__ is raised


def test_a_refusal_without_words_says_the_codes_own():
    """The default message of a refusal is the table's."""
    assert normal(Forbidden()).public_message == CapabilityError("FORBIDDEN").public_message
    assert str(Unauthenticated()) == CapabilityError("UNAUTHENTICATED").public_message


@pytest.mark.parametrize(
    "declared", [None, (), (OutOfStockError,), (DomainError,), (OtherError, OutOfStockError)]
)
@pytest.mark.parametrize("kind", [OutOfStockError, SoldOutError])
def test_a_declared_domain_error_is_shown(kind, declared):
    """A `DomainError` is contract when nothing is listed, or it or a base of it is."""
    raised = kind(details={"left": 0})
    error = normal(raised, declared)
    assert (error.code, error.stage, error.exposed) == ("EXECUTION_FAILED", "execution", True)
    assert (error.public_message, error.retryable) == (kind.message, True)
    assert (error.reason, error.details) == (kind.code, {"left": 0})
    assert error.__cause__ is raised


def test_an_undeclared_domain_error_is_concealed():
    """A `DomainError` that is not listed broke the contract; the audit still learns its code."""
    raised = OtherError("secret", details={"secret": 1})
    error = normal(raised, (OutOfStockError,))
    assert concealed(error, raised)
    assert error.reason == "OTHER_ERROR"


def test_a_derived_list_does_not_declare_its_base():
    """Listing a subclass does not list its base."""
    raised = OutOfStockError()
    assert concealed(normal(raised, (SoldOutError,)), raised)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (OutOfStockError, Effect.UNKNOWN, Effect.UNKNOWN),
        (OutOfStockError, Effect.NONE, Effect.NONE),
        (SoldOutError, Effect.UNKNOWN, Effect.NONE),
    ],
)
def test_a_class_may_declare_that_nothing_was_done(kind, given, expected):
    """`effect = Effect.NONE` on a class says that it is raised before anything was done."""
    assert normal(kind(), effect=given).effect is expected


MAP = {
    LookupError: OutOfStockError,
    KeyError: Forbidden,
    PermissionError: Unauthenticated,
    TimeoutError: OtherError,
}


@pytest.mark.parametrize(
    ("raised", "code", "reason"),
    [
        (IndexError("secret"), "EXECUTION_FAILED", "OUT_OF_STOCK_ERROR"),
        (KeyError("secret"), "FORBIDDEN", None),
        (PermissionError("secret"), "UNAUTHENTICATED", None),
        (TimeoutError("secret"), "EXECUTION_FAILED", "OTHER_ERROR"),
    ],
)
def test_a_mapped_exception_becomes_the_mapped_class(raised, code, reason):
    """The most specific mapped base decides; the foreign text is never used."""
    error = normal(raised, exceptions=MAP)
    assert (error.code, error.reason, error.exposed) == (code, reason, True)
    assert "secret" not in error.public_message or reason == "OTHER_ERROR"
    assert error.__cause__ is raised


def test_a_mapped_domain_error_must_be_declared_too():
    """Mapping an exception does not widen a capability's contract."""
    raised = IndexError("secret")
    assert concealed(normal(raised, (OtherError,), MAP), raised)


def test_an_unmapped_exception_is_concealed():
    """A mapping of other classes changes nothing."""
    raised = ValueError("secret")
    assert concealed(normal(raised, exceptions=MAP), raised)


class NeedsArgumentsError(DomainError):
    def __init__(self, order):
        super().__init__(f"Order {order}.")


@pytest.mark.parametrize("target", [NeedsArgumentsError, ValueError, CapabilityError, None])
def test_a_mapped_class_that_cannot_be_used_is_concealed(target):
    """A target that cannot be built, or speaks for nobody, fails closed and says so in a note."""
    raised = KeyError("secret")
    error = normal(raised, exceptions={KeyError: target} if target else {KeyError: object()})
    assert concealed(error, raised)
    assert error.__notes__ == ["capgate: the class this exception is mapped to could not be built"]


def test_the_bare_base_of_authors_errors_speaks_for_nobody():
    """Only the three public classes have a meaning."""
    raised = Declared("secret")
    assert concealed(normal(raised), raised)


def test_a_mapping_does_not_catch_what_the_author_declared():
    """A mapping of `Exception` leaves declared errors and capability errors alone."""
    every = {Exception: Forbidden}
    nested = stamp(CapabilityError("INPUT_INVALID"), execution_id="exe_1")
    assert normal(OutOfStockError(), exceptions=every).reason == "OUT_OF_STOCK_ERROR"
    assert concealed(normal(nested, exceptions=every), nested)


def test_a_handlers_own_execution_failed_is_kept():
    """Its retryable, exposed, message and cause are the author's; stage and effect are not."""
    cause = ValueError("secret")
    made = CapabilityError(
        "EXECUTION_FAILED", "Try later.", retryable=True, exposed=True, stage="policy"
    )
    made.__cause__ = cause
    error = normal(made)
    assert (error.public_message, error.retryable, error.exposed) == ("Try later.", True, True)
    assert (error.stage, error.effect, error.execution_id) == ("execution", "unknown", None)
    assert error.__cause__ is cause


def test_a_handlers_own_private_execution_failed_stays_private():
    """An EXECUTION_FAILED that its author did not expose is not shown."""
    error = normal(CapabilityError("EXECUTION_FAILED", "secret", retryable=True))
    assert (error.retryable, error.exposed) == (True, False)


@pytest.mark.parametrize(
    "code", ["INPUT_INVALID", "TIMEOUT", "CAPABILITY_NOT_FOUND", "POLICY_DENIED", "FORBIDDEN"]
)
def test_a_handler_cannot_forge_another_code(code):
    """Any other code that a handler builds is concealed; handlers have their own words."""
    raised = CapabilityError(code, "secret", exposed=True, retryable=True, details={"secret": 1})
    assert concealed(normal(raised), raised)


@pytest.mark.parametrize("code", ["INPUT_INVALID", "EXECUTION_FAILED", "APPROVAL_REQUIRED"])
def test_a_nested_failure_is_never_the_outer_callers(code):
    """What a nested invocation failed with is an internal of the outer one."""
    nested = stamp(CapabilityError(code, "secret", exposed=True), execution_id="exe_inner")
    error = normal(nested)
    assert concealed(error, nested)
    assert error.execution_id is None


def test_a_group_with_one_leaf_is_that_leaf():
    """However deep, a single failure is the failure."""
    leaf = OutOfStockError()
    error = normal(BaseExceptionGroup("a", [ExceptionGroup("b", [ExceptionGroup("c", [leaf])])]))
    assert (error.reason, error.exposed) == ("OUT_OF_STOCK_ERROR", True)
    assert error.__cause__ is leaf


def test_a_group_with_several_leaves_is_concealed():
    """Nobody can say which of several failures is the contract."""
    group = ExceptionGroup("a", [OutOfStockError(), ExceptionGroup("b", [Forbidden()])])
    assert concealed(normal(group), group)


def test_a_very_deep_group_is_read_without_recursion():
    """Depth alone cannot break the normaliser."""
    group = OutOfStockError()
    for _ in range(5000):
        group = ExceptionGroup("deep", [group])
    error = normal(group)
    del group
    assert error.reason == "OUT_OF_STOCK_ERROR"


@pytest.mark.parametrize(
    "raised",
    [ValueError("secret"), TimeoutError("secret"), asyncio.CancelledError("secret")],
)
def test_any_other_exception_is_concealed(raised):
    """A handler's own TimeoutError or stray cancellation is an internal like any other."""
    error = normal(raised)
    assert concealed(error, raised)
    assert (error.reason, error.effect) == (None, "unknown")
    assert "secret" not in f"{error} {error!r} {public_error(error)}"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exit_of_the_process_is_an_internal_error(kind):
    """The audit's view of an exit, also inside a group; the engine re-raises it."""
    for raised in (kind(), BaseExceptionGroup("a", [ValueError(), kind()])):
        error = normal(raised)
        assert (error.code, error.exposed, error.__cause__) == ("INTERNAL_ERROR", False, raised)


@pytest.mark.parametrize("stage", list(FailureStage))
def test_a_stage_that_breaks_fails_closed_with_its_own_code(stage):
    """SI-7: a custom stage's exception becomes its stage's fail-closed code, never exposed."""
    codes = {"policy": "POLICY_FAILED", "authorization": "FORBIDDEN"}
    raised = ValueError("secret")
    error = class_failure(stage, raised)
    assert error.code == codes.get(stage, "INTERNAL_ERROR")
    assert (error.stage, error.exposed, error.__cause__) == (stage, False, raised)
