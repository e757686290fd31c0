"""Several requirements merge into one request that is no weaker than any of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from capgate.approvals import Requirement, covers, merge
from capgate.testing.sample_approvals import sample


def test_everything_that_was_asked_for_is_in_the_merged_request():
    """All reasons, types and rules, each once and in order; the largest quorum."""
    first, second = (lambda r: True), (lambda r: False)
    merged = merge(
        [
            Requirement("b", "manager", approvers=first),
            Requirement("a", None, approvers=second, quorum=3),
            Requirement("b", "manager", approvers=first),
        ],
        default_window=900,
    )
    assert merged.reasons == ("b", "a")
    assert merged.types == ("manager",)
    assert merged.rules == (first, second)
    assert merged.quorum == 3


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ((60, timedelta(hours=1)), 60),
        ((None, 86_400), 900),
        ((None, None), 900),
        ((timedelta(minutes=5), None), 300),
        ((3600, 7200), 3600),
    ],
)
def test_the_shortest_window_wins_and_the_default_counts(windows, expected):
    """Reference A let a policy's hour override a declared minute."""
    demands = [Requirement("r", expires_in=window) for window in windows]
    assert merge(demands, default_window=900).expires_in == expected


@pytest.mark.parametrize(("each", "expected"), [((True, True), True), ((True, False), False)])
def test_self_approval_needs_everyone_to_allow_it(each, expected):
    """SI-4: one requirement that forbids it forbids it for all."""
    demands = [Requirement("r", allow_self=allowed) for allowed in each]
    assert merge(demands, default_window=900).allow_self is expected


def test_an_empty_merge_is_a_mistake():
    """There is no request without a requirement."""
    with pytest.raises(ValueError, match="nothing to merge"):
        merge([], default_window=900)


@pytest.mark.parametrize("window", [0, -1, True, float("nan"), float("inf"), "60"])
def test_a_window_is_a_duration(window):
    """A window that is none is refused, not rounded."""
    with pytest.raises(TypeError):
        merge([Requirement("r", expires_in=window)], default_window=900)


@pytest.mark.parametrize(
    ("requirement", "covered"),
    [
        (Requirement("anything", "manager"), True),
        (Requirement("anything", "finance"), False),
        (Requirement("Refunds need a manager."), True),
        (Requirement("Another reason."), False),
    ],
)
def test_a_granted_approval_covers_only_its_own_sign_offs(requirement, covered):
    """Reference A ignored a second, different sign-off once one approval was there."""
    assert covers(sample("apr_1"), requirement) is covered
