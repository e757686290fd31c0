"""`CapabilityError` as a value: arguments, immutability, text, copies and stamps."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import pickle
import traceback
from types import MappingProxyType

import pytest

from capgate.errors import (
    CapabilityError,
    Effect,
    ErrorCode,
    FailureStage,
    is_own,
    stamp,
)

STORED = ("code", "public_message", "stage", "retryable", "exposed", "details", "reason", "effect")
FIELDS = (*STORED, "execution_id", "approval_id", "public_details", "category")


def full_error():
    error = CapabilityError(
        ErrorCode.EXECUTION_FAILED,
        "No stock.",
        stage=FailureStage.POLICY,
        retryable=True,
        exposed=True,
        details={"left": [1, 2]},
        reason="OUT_OF_STOCK",
        effect=Effect.UNKNOWN,
    )
    return stamp(error, execution_id="exe_1", approval_id="apr_1", public_details=True)


def facts(error):
    return {name: getattr(error, name) for name in FIELDS}


def test_arguments_override_the_table():
    """Every fact of the table but the code can be set for one error."""
    assert facts(full_error()) == {
        "code": "EXECUTION_FAILED",
        "public_message": "No stock.",
        "stage": "policy",
        "retryable": True,
        "exposed": True,
        "details": {"left": [1, 2]},
        "reason": "OUT_OF_STOCK",
        "effect": "unknown",
        "execution_id": "exe_1",
        "approval_id": "apr_1",
        "public_details": True,
        "category": "EXECUTION_FAILED",
    }


def test_strings_stand_for_their_enum_members():
    """A code, stage or effect may be given as its exact string, and reads as the member."""
    error = CapabilityError("TIMEOUT", stage="discovery", effect="done")
    assert (error.code, error.stage, error.effect) == (
        ErrorCode.TIMEOUT,
        FailureStage.DISCOVERY,
        Effect.DONE,
    )
    assert type(error.stage) is FailureStage


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"code": "NO_SUCH_CODE"}, "code"),
        ({"code": "timeout"}, "code"),
        ({"code": 7}, "code"),
        ({"public_message": b"bytes"}, "public_message"),
        ({"stage": "kitchen"}, "stage"),
        ({"stage": 1}, "stage"),
        ({"retryable": 1}, "retryable"),
        ({"exposed": "yes"}, "exposed"),
        ({"reason": 5}, "reason"),
        ({"effect": None}, "effect"),
        ({"effect": "some"}, "effect"),
    ],
)
def test_a_wrong_argument_is_a_type_error_that_names_it(arguments, named):
    """A programming error in building an error is told at once, by argument."""
    with pytest.raises(TypeError, match=f"^{named} "):
        CapabilityError(**{"code": "TIMEOUT", **arguments})


@pytest.mark.parametrize("name", [*FIELDS, "args", "anything", "__class__", "__dict__", "_record"])
def test_nothing_can_be_set_or_deleted_after_construction(name):
    """An error is immutable: no field, no new attribute, no class change."""
    error = full_error()
    before = facts(error)
    with pytest.raises(AttributeError):
        setattr(error, name, "FORBIDDEN")
    with pytest.raises(AttributeError):
        delattr(error, name)
    error.__dict__["code"] = "FORBIDDEN"
    assert facts(error) == before


def test_an_error_is_constructed_once():
    """Running the constructor again changes nothing."""
    error = full_error()
    with pytest.raises(AttributeError):
        error.__init__("FORBIDDEN")
    assert facts(error) == facts(full_error())


def test_details_are_captured_by_copy():
    """Later changes by the author, or by a reader, change nothing."""
    given = {"issues": [{"path": "a", "message": "required"}]}
    error = CapabilityError("INPUT_INVALID", details=given)
    given["issues"].append("later")
    error.details["issues"].clear()
    assert error.details == {"issues": [{"path": "a", "message": "required"}]}


def test_json_like_details_become_plain_json():
    """Tuples, other mappings and enum members are stored as what JSON makes of them."""
    error = CapabilityError("INPUT_INVALID", details=MappingProxyType({"a": (Effect.NONE, 1.5)}))
    assert error.details == {"a": ["none", 1.5]}
    assert json.dumps(error.details) == '{"a": ["none", 1.5]}'


def endless():
    loop = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "details",
    [object(), {"a": {1, 2}}, math.nan, {1: "a"}, "\ud800", b"x", 10**5000, endless()],
    ids=["object", "set", "nan", "key", "surrogate", "bytes", "huge", "cycle"],
)
def test_details_that_are_not_json_are_dropped_with_a_note(details):
    """Unserialisable details do not replace the failure they belong to."""
    error = CapabilityError("INPUT_INVALID", details=details)
    assert error.details is None
    assert error.__notes__ == ["capgate: the details were dropped, they are not JSON data"]


def test_str_is_code_and_public_message():
    """`str` is safe to log."""
    assert str(full_error()) == "EXECUTION_FAILED: No stock."


def test_repr_shows_no_details_and_no_cause():
    """SI-9: `repr` shows code, stage and execution id, and nothing else."""
    error = full_error()
    error.__cause__ = ValueError("secret")
    expected = "CapabilityError(code='EXECUTION_FAILED', stage='policy', execution_id='exe_1')"
    assert repr(error) == expected


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        *(
            lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol))
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        ),
    ],
)
def test_copies_and_pickles_keep_every_field(duplicate):
    """An error crosses process pools with all its fields, notes included, without its cause."""
    error = full_error()
    error.__cause__ = ValueError("secret")
    error.add_note("seen by the worker")
    again = duplicate(error)
    assert again is not error
    assert type(again) is CapabilityError
    assert facts(again) == facts(error)
    assert (str(again), repr(again), again.args) == (str(error), repr(error), error.args)
    assert again.__notes__ == ["seen by the worker"]
    assert again.__cause__ is None


def test_a_copy_shares_no_details_with_its_original():
    """A deep copy is as immutable as its original."""
    again = copy.deepcopy(full_error())
    with pytest.raises(AttributeError):
        again.code = "FORBIDDEN"
    assert is_own(again)


def test_a_subclass_with_its_own_constructor_pickles():
    """Copying does not run a subclass's constructor."""
    again = pickle.loads(pickle.dumps(FussyError("a", "b")))
    assert type(again) is FussyError
    assert again.public_message == "a b"


class FussyError(CapabilityError):
    def __init__(self, one, two):
        super().__init__("EXECUTION_FAILED", f"{one} {two}")


def test_raising_works_in_every_usual_way():
    """Causes, notes, tracebacks, context managers and re-raising need no field to change."""

    @contextlib.contextmanager
    def passing():
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: None)
            yield

    error = CapabilityError("TIMEOUT")
    error.add_note("noted")
    cause = ValueError("inner")
    with pytest.raises(CapabilityError) as caught, passing():
        raise error.with_traceback(None) from cause
    assert caught.value is error
    assert (error.__cause__, error.__suppress_context__) == (cause, True)
    assert "noted" in "".join(traceback.format_exception(error))


def test_notes_can_be_taken_back():
    """Notes belong to the traceback, not to the fields."""
    error = CapabilityError("TIMEOUT")
    error.add_note("noted")
    del error.__notes__
    assert not hasattr(error, "__notes__")


def test_a_stamp_is_a_copy_with_some_fields_replaced():
    """`stamp` leaves its original alone and replaces only what it is given."""
    error = CapabilityError("FORBIDDEN", details=[1])
    stamped = stamp(error, execution_id="exe_9", stage=FailureStage.POLICY, effect=Effect.DONE)
    assert (error.execution_id, error.stage, error.effect) == (None, "authorization", "none")
    assert (stamped.execution_id, stamped.stage, stamped.effect) == ("exe_9", "policy", "done")
    assert (stamped.code, stamped.details, stamped.approval_id) == ("FORBIDDEN", [1], None)


def test_a_stamp_keeps_cause_context_traceback_and_notes():
    """What an operator needs to find the fault survives a stamp."""
    cause = ValueError("inner")
    with pytest.raises(CapabilityError) as caught:
        raise CapabilityError("FORBIDDEN") from cause
    error = caught.value
    error.__context__ = KeyError("around")
    error.add_note("noted")
    stamped = stamp(error, execution_id="exe_9")
    assert stamped.__cause__ is cause
    assert stamped.__context__ is error.__context__
    assert stamped.__traceback__ is error.__traceback__
    assert stamped.__notes__ == ["noted"]
    stamped.add_note("only here")
    assert error.__notes__ == ["noted"]


def test_a_stamp_survives_notes_that_are_no_notes():
    """A hostile `__notes__` cannot break the engine's own copy."""
    error = CapabilityError("FORBIDDEN")
    error.__notes__ = 5
    assert stamp(error, execution_id="exe_9").execution_id == "exe_9"


def test_only_an_exact_sound_error_is_own():
    """`is_own` trusts neither subclasses, nor forged fields, nor other objects."""
    forged = CapabilityError("FORBIDDEN")
    object.__setattr__(forged, "_record", forged._record._replace(code="LIE"))
    assert is_own(CapabilityError("FORBIDDEN"))
    assert not is_own(FussyError("a", "b"))
    assert not is_own(forged)
    assert not is_own(CapabilityError.__new__(CapabilityError))
    assert not is_own(ValueError("x"))
    with pytest.raises(TypeError):
        stamp(forged, execution_id="exe_1")
