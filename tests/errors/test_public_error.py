"""The trust boundary: two shapes, atomic, and nothing else (SI-9)."""

from __future__ import annotations

import json

import pytest

from capgate.errors import (
    CapabilityError,
    DomainError,
    Effect,
    Forbidden,
    normalize,
    public_error,
    stamp,
)

GENERIC = {"code": "INTERNAL_ERROR", "message": "The operation failed.", "retryable": False}
ISSUES = {"issues": [{"path": "amount", "message": "required"}]}


def refused(raised, declared=None):
    return normalize(raised, declared=declared, exceptions={}, effect=Effect.UNKNOWN)


def test_an_exposed_error_shows_code_message_and_retryable_only():
    """SI-9: stage, details, reason, ids, effect and cause never cross."""
    error = CapabilityError(
        "POLICY_DENIED", "Above the limit.", details={"secret": 1}, reason="secret", effect="done"
    )
    error.__cause__ = ValueError("secret")
    error.add_note("secret")
    shown = public_error(stamp(error, execution_id="exe_secret", approval_id="apr_secret"))
    assert shown == {"code": "POLICY_DENIED", "message": "Above the limit.", "retryable": False}
    assert [type(value) for value in shown.values()] == [str, str, bool]


def test_a_concealed_error_shows_the_generic_shape_whatever_it_is():
    """SI-9: AUDIT_UNAVAILABLE is retryable inside, and generic outside."""
    concealed = CapabilityError("INPUT_INVALID", "secret", exposed=False, details=ISSUES)
    assert public_error(concealed) == GENERIC
    assert public_error(CapabilityError("AUDIT_UNAVAILABLE", "secret")) == GENERIC


def test_input_invalid_shows_its_issues():
    """The issues of INPUT_INVALID leave with it."""
    shown = public_error(CapabilityError("INPUT_INVALID", details=ISSUES))
    assert shown["details"] == ISSUES
    assert "details" not in public_error(CapabilityError("INPUT_INVALID"))


def test_each_shape_is_a_fresh_plain_dict():
    """Changing a reply changes neither the error nor the next reply."""
    error = CapabilityError("INPUT_INVALID", details=ISSUES)
    public_error(error)["details"]["issues"].clear()
    public_error(ValueError("x"))["code"] = "CHANGED"
    assert public_error(error)["details"] == ISSUES
    assert public_error(ValueError("x")) == GENERIC


class OutOfStockError(DomainError):
    message = "No stock."
    public_details = True


class QuietError(DomainError):
    message = "No stock."


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ({"left": 2}, {"reason": "OUT_OF_STOCK_ERROR", "left": 2}),
        (None, {"reason": "OUT_OF_STOCK_ERROR"}),
        ({"reason": "forged"}, {"reason": "OUT_OF_STOCK_ERROR"}),
        ([1], {"reason": "OUT_OF_STOCK_ERROR", "details": [1]}),
        ([], {"reason": "OUT_OF_STOCK_ERROR", "details": []}),
    ],
)
def test_a_domain_error_that_opted_in_shows_code_and_details(details, expected):
    """`details` is the author's code as reason, with the author's details."""
    shown = public_error(refused(OutOfStockError(details=details)))
    assert shown == {
        "code": "EXECUTION_FAILED",
        "message": "No stock.",
        "retryable": False,
        "details": expected,
    }


def test_a_domain_error_that_did_not_opt_in_shows_no_details():
    """Details stay private unless the class says otherwise, not the instance."""
    quiet = QuietError(details={"left": 2})
    quiet.public_details = True
    error = refused(quiet)
    assert error.details == {"left": 2}
    assert "details" not in public_error(error)


def test_an_undeclared_domain_error_shows_nothing():
    """Opting in does not help an error that broke its capability's contract."""
    assert public_error(refused(OutOfStockError(details={"left": 2}), (QuietError,))) == GENERIC


@pytest.mark.parametrize(
    "error",
    [
        None,
        "FORBIDDEN",
        {"code": "FORBIDDEN", "message": "x", "retryable": False},
        ValueError("secret"),
        Forbidden("not normalised"),
        OutOfStockError("not normalised"),
    ],
)
def test_what_is_no_capability_error_is_generic(error):
    """Only a governed failure can choose its public face."""
    assert public_error(error) == GENERIC


class RaisingMessageError(CapabilityError):
    @property
    def public_message(self):
        raise RuntimeError("secret")


class OtherCodeError(CapabilityError):
    code = "CAPABILITY_NOT_FOUND"


class EverythingRaisesError(CapabilityError):
    def __getattribute__(self, name):
        raise SystemExit("secret")


class ImpostorError(Exception):
    code, public_message, retryable, exposed = "FORBIDDEN", "secret", False, True
    __class__ = CapabilityError


class LyingMeta(type):
    __mro__ = (CapabilityError, Exception)

    def __eq__(cls, other):
        return True

    __hash__ = type.__hash__


class LyingClassError(CapabilityError, metaclass=LyingMeta):
    details = "secret"


@pytest.mark.parametrize(
    "kind", [RaisingMessageError, OtherCodeError, EverythingRaisesError, LyingClassError]
)
def test_an_error_that_answers_for_its_fields_is_generic(kind):
    """A subclass that raises or lies when it is read is never trusted, as a whole."""
    assert public_error(kind("FORBIDDEN")) == GENERIC


@pytest.mark.parametrize("build", [ImpostorError, lambda: CapabilityError.__new__(CapabilityError)])
def test_an_error_that_only_looks_like_one_is_generic(build):
    """Neither a claimed class nor an error that was never constructed is trusted."""
    assert public_error(build()) == GENERIC


class Hostile(dict):
    def items(self):
        raise SystemError("secret")


@pytest.mark.parametrize(
    "details",
    [object(), Hostile(a=1), {"when": {1}}, "\ud800", [float("inf")]],
    ids=["object", "hostile", "set", "surrogate", "infinity"],
)
def test_unserialisable_details_make_the_whole_shape_generic(details):
    """Serialisation is atomic: never a code without the details that belong to it."""
    assert public_error(CapabilityError("INPUT_INVALID", details=details)) == GENERIC
    assert public_error(refused(OutOfStockError(details=details))) == GENERIC


@pytest.mark.parametrize(
    "change",
    [
        {"code": "LIE"},
        {"public_message": 5},
        {"public_message": "\ud800"},
        {"public_details": True, "reason": "\ud800"},
        {"retryable": "no"},
        {"exposed": 1},
        {"details": {"a": object()}},
    ],
)
def test_forged_fields_make_the_whole_shape_generic(change):
    """A record with a value of the wrong type, or without JSON form, is not shown."""
    error = CapabilityError("INPUT_INVALID", details=ISSUES)
    object.__setattr__(error, "_record", error._record._replace(**change))
    assert public_error(error) == GENERIC


def test_a_plain_subclass_is_shown_like_its_base():
    """A subclass that leaves the fields alone is trusted."""
    plain = type("Busy", (CapabilityError,), {})("RATE_LIMITED")
    assert public_error(plain)["code"] == "RATE_LIMITED"


def test_every_shape_is_json():
    """A shape always serialises, escapes and all."""
    shown = public_error(CapabilityError("FORBIDDEN", 'a "quoted" \x00 é line\n'))
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
