"""A group inside a group, put together by hand: every leaf is asked."""

from __future__ import annotations

from capgate import allow, combine, deny, policy
from capgate.capability import Policy


def named(name, answer):
    return policy(name)(lambda request: answer)


async def test_no_leaf_of_a_nested_group_is_lost(court):
    """SI-1: what is nested deeper than `combine` nests still judges the call."""
    inner = combine("inner", named("a", allow()), named("b", deny()))
    outer = Policy(name="outer", phases=inner.phases, members=(inner, named("c", allow())))
    built = court(outer)
    assert (await built.judge()).error.code == "POLICY_DENIED"
    assert built.decisions() == [("a", "allow"), ("b", "deny"), ("c", "allow")]
