"""What a policy may answer, and what it may not."""

from __future__ import annotations

from datetime import timedelta

import pytest

from capgate import Decision, allow, deny, hide, require_approval, requires


def test_answers_are_values():
    """Equal answers are equal; nobody can change one that was given."""
    assert deny("No.", reason="r") == deny("No.", reason="r")
    assert hide() == hide()
    with pytest.raises(AttributeError):
        allow().verdict = "deny"


def test_metadata_is_captured():
    """What the author changes later is not what was answered."""
    facts = {"limit": 5}
    decision = allow(**facts)
    facts["limit"] = 6
    assert decision.metadata == {"limit": 5}
    with pytest.raises(TypeError):
        decision.metadata["limit"] = 7


@pytest.mark.parametrize("reason", ["", "  ", None, 5, b"x"])
def test_a_requirement_says_why(reason):
    """The caller and the approvers are shown a reason (reference A 74)."""
    with pytest.raises(TypeError, match="reason"):
        require_approval(reason)


@pytest.mark.parametrize(
    "window", [0, -1, float("nan"), float("inf"), True, "60", timedelta(0), timedelta(seconds=-1)]
)
def test_a_window_is_finite_and_positive(window):
    """A NaN window would give an approval without an end (reference A 62)."""
    with pytest.raises(TypeError):
        require_approval("Why.", expires_in=window)


@pytest.mark.parametrize("window", [60, 60.0, timedelta(minutes=1)])
def test_a_window_is_seconds_or_a_timedelta(window):
    """Both mean the same."""
    assert require_approval("Why.", expires_in=window).expires_in == 60.0


@pytest.mark.parametrize(
    "wrong", [{"type": 5}, {"approvers": "manager"}, {"allow_self": 1}, {"allow_self": None}]
)
def test_a_malformed_requirement_is_refused_where_it_is_written(wrong):
    """A truthy `allow_self` is not True."""
    with pytest.raises(TypeError):
        require_approval("Why.", **wrong)


@pytest.mark.parametrize("arguments", [{"message": 5}, {"reason": 5}, {"message": b"no"}])
def test_a_denial_speaks_in_text(arguments):
    """The message is shown and the reason is recorded, both as text."""
    with pytest.raises(TypeError):
        deny(**arguments)


def test_a_requirement_names_its_approvers():
    """An access rule over the approver and the record."""
    rule = requires("manager")
    decision = require_approval("Why.", type="manager", approvers=rule, allow_self=True)
    assert (decision.approvers, decision.type, decision.allow_self) == (rule, "manager", True)
    assert isinstance(decision, Decision)
