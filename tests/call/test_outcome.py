"""The four outcomes: values that match, unwrap and never change."""

from __future__ import annotations

import pytest

from capgate import (
    Actor,
    ApprovalRequired,
    ApprovalRule,
    Cancelled,
    CapabilityError,
    Completed,
    Effect,
    Engine,
    Failed,
)

FAILURE = CapabilityError("EXECUTION_FAILED")


def describe(outcome):
    """Name what an outcome is, by matching."""
    match outcome:
        case Completed(execution_id, output):
            return ("completed", execution_id, output)
        case ApprovalRequired(execution_id, approval):
            return ("approval", execution_id, approval)
        case Failed(execution_id, error):
            return ("failed", execution_id, error)
        case Cancelled(execution_id, error):
            return ("cancelled", execution_id, error)


@pytest.mark.parametrize(
    ("outcome", "described"),
    [
        (Completed("exe_1", 42), ("completed", "exe_1", 42)),
        (ApprovalRequired("exe_1", "record"), ("approval", "exe_1", "record")),
        (Failed("exe_1", FAILURE), ("failed", "exe_1", FAILURE)),
        (Cancelled("exe_1", FAILURE), ("cancelled", "exe_1", FAILURE)),
    ],
)
def test_match_works_on_all_four(outcome, described):
    """`match` takes each outcome apart by position."""
    assert describe(outcome) == described


def test_status_names_each():
    """Each outcome has its status as a word."""
    kinds = (Completed, ApprovalRequired, Failed, Cancelled)
    assert [kind.status for kind in kinds] == [
        "completed",
        "approval-required",
        "failed",
        "cancelled",
    ]


def test_defaults_of_a_completed_call():
    """By default a completed call had an effect, was in time, new, and needed one attempt."""
    outcome = Completed("exe_1", 42)
    facts = (outcome.effect, outcome.attempts, outcome.late, outcome.replayed)
    assert facts == (Effect.DONE, 1, False, False)


def test_unwrap_gives_the_output():
    """A completed outcome unwraps to its output."""
    assert Completed("exe_1", [1]).unwrap() == [1]


@pytest.mark.parametrize("kind", [Failed, Cancelled])
def test_unwrap_raises_the_error(kind):
    """An unsuccessful outcome raises its very error."""
    with pytest.raises(CapabilityError) as caught:
        kind("exe_1", FAILURE).unwrap()
    assert caught.value is FAILURE


async def test_unwrap_of_a_suspended_call_names_the_approval():
    """A suspended call unwraps to APPROVAL_REQUIRED, with the approval's id on the error."""
    engine = Engine("e")

    @engine.capability("job", approval=ApprovalRule(), side_effect="write")
    async def job() -> None:
        """Do it."""

    outcome = await engine.attempt("job", {}, actor=Actor("usr_1"))
    with pytest.raises(CapabilityError) as caught:
        outcome.unwrap()
    assert caught.value.code == "APPROVAL_REQUIRED"
    assert caught.value.approval_id == outcome.approval.id
    assert caught.value.execution_id == outcome.execution_id


def test_outcomes_compare_by_value():
    """Equal fields make equal outcomes of one kind."""
    assert Completed("exe_1", 1) == Completed("exe_1", 1)
    assert hash(Completed("exe_1", [1])) == hash(Completed("exe_1", [1]))
    assert Completed("exe_1", 1) != Completed("exe_1", 1, late=True)
    assert Failed("exe_1", FAILURE) != Cancelled("exe_1", FAILURE)
    assert Completed("exe_1", 1) != "exe_1"


@pytest.mark.parametrize("name", ["execution_id", "output", "effect", "late", "extra"])
def test_outcomes_cannot_be_changed(name):
    """No field can be set or deleted."""
    outcome = Completed("exe_1", 1)
    with pytest.raises(AttributeError):
        setattr(outcome, name, 2)
    with pytest.raises(AttributeError):
        delattr(outcome, name)


def test_repr_tells_no_output():
    """The repr of an outcome shows no output, no message and no cause."""
    assert "secret" not in repr(Completed("exe_1", "secret"))
    error = CapabilityError("EXECUTION_FAILED", "secret words")
    assert repr(Failed("exe_1", error)) == "Failed('exe_1', EXECUTION_FAILED)"
