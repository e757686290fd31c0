"""Hostile errors: whatever they do when read, they choose nothing and break nothing."""

from __future__ import annotations

import asyncio

import pytest

from capgate.errors import (
    CapabilityError,
    DomainError,
    Effect,
    Forbidden,
    Unauthenticated,
    normalize,
    public_error,
)

GENERIC = {"code": "INTERNAL_ERROR", "message": "The operation failed.", "retryable": False}


def normal(raised, exceptions=None):
    return normalize(raised, declared=None, exceptions=exceptions or {}, effect=Effect.UNKNOWN)


def boom(*_):
    raise RuntimeError("secret")


def cancelled(*_):
    raise asyncio.CancelledError("secret")


class UnprintableError(Exception):
    __str__ = __repr__ = __format__ = __hash__ = __eq__ = boom


class UntouchableError(Exception):
    __getattribute__ = boom


class ClaimsDomainError(Exception):
    __class__ = DomainError
    code, message, retryable, effect = "FORGED", "secret", True, Effect.NONE


class ClaimsForbiddenError(Exception):
    __class__ = Forbidden
    message = "secret"


class ClaimsCapabilityError(Exception):
    __class__ = CapabilityError
    code, public_message, exposed, execution_id = "EXECUTION_FAILED", "secret", True, None


class OtherwiseCodedError(CapabilityError):
    code = property(boom)


class RenamedError(CapabilityError):
    public_message = "secret"


class SwallowedConstructorError(CapabilityError):
    def __init__(self):
        Exception.__init__(self, "secret")


def bad_domain(**fields):
    return type("Bad", (DomainError,), {"message": "secret", **fields})


BAD_CLASSES = [
    bad_domain(code=5),
    bad_domain(code=property(boom)),
    bad_domain(message=None),
    bad_domain(message=property(boom)),
    bad_domain(message=property(cancelled)),
    bad_domain(message=b"secret"),
    bad_domain(message="\ud800 secret"),
    bad_domain(retryable="yes"),
    bad_domain(retryable=1),
    bad_domain(retryable=property(boom)),
    bad_domain(effect="gone"),
    bad_domain(effect=None),
    bad_domain(details=property(boom)),
    bad_domain(public_details=True, details=object()),
    bad_domain(public_details=True, details={"a": {1}}),
    bad_domain(__getattribute__=boom),
    type("BadForbidden", (Forbidden,), {"message": property(boom)}),
    type("BadStranger", (Unauthenticated,), {"message": 5}),
]


@pytest.mark.parametrize(
    "build",
    [
        UnprintableError,
        UntouchableError,
        ClaimsDomainError,
        ClaimsForbiddenError,
        ClaimsCapabilityError,
        lambda: OtherwiseCodedError("EXECUTION_FAILED", exposed=True),
        lambda: RenamedError("EXECUTION_FAILED", exposed=True),
        SwallowedConstructorError,
        *BAD_CLASSES,
    ],
)
def test_an_error_that_cannot_be_read_is_unknown(build):
    """SI-9: raising properties, lies about the class and bad fields are never trusted."""
    raised = build()
    error = normal(raised)
    assert (error.code, error.exposed, error.retryable) == ("EXECUTION_FAILED", False, False)
    assert error.__cause__ is raised
    assert public_error(error) == GENERIC
    notes = getattr(error, "__notes__", ())
    assert "secret" not in f"{error} {error!r} {error.details} {error.reason} {notes}"


def test_an_unreadable_error_is_reported_in_a_note():
    """What was contained is told to whoever reads the private traceback."""
    error = normal(BAD_CLASSES[0]())
    assert error.__notes__ == ["capgate: the fields of the raised error could not be read"]


def test_a_signal_that_lands_while_reading_goes_through():
    """Containment does not eat an interrupt of the whole process."""

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        normal(bad_domain(message=property(interrupt))())


def test_private_details_that_are_not_json_do_not_conceal_a_declared_error():
    """Without the opt-in the details are nobody's business: the message is still contract."""
    error = normal(type("Fine", (DomainError,), {"message": "Fine."})(details=object()))
    assert (error.public_message, error.exposed, error.details) == ("Fine.", True, None)
    assert error.__notes__ == ["capgate: the details were dropped, they are not JSON data"]


class Text(str):
    __slots__ = ()
    __str__ = __repr__ = __format__ = encode = boom


def test_a_hostile_text_is_read_as_its_characters():
    """A str subclass cannot answer for its characters."""
    error = normal(DomainError(Text("Plain.")))
    assert type(error.public_message) is str
    assert error.public_message == "Plain."


def test_a_group_cannot_lie_about_its_leaves():
    """The members of a group are read from the group itself."""

    class Lying(ExceptionGroup):
        exceptions = (Forbidden("forged"),)

    inner = ValueError("secret")
    error = normal(Lying("g", [inner]))
    assert (error.code, error.__cause__) == ("EXECUTION_FAILED", inner)


def test_a_hostile_metaclass_cannot_choose_its_mapping():
    """A mapping is looked up by the identity of the real bases."""

    class Meta(type):
        __eq__ = __hash__ = __subclasscheck__ = boom
        __mro__ = property(boom)

    raised = Meta("Odd", (Exception,), {})("secret")
    error = normal(raised, {KeyError: Forbidden})
    assert (error.code, error.__cause__) == ("EXECUTION_FAILED", raised)
