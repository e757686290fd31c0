"""Declaring policies: what could never work is refused where it is written down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from capgate import ConfigurationError, Engine, allow, combine, deny, policy
from capgate.capability import Policy


def named(name, answer=None, phases=frozenset({"invocation"})):
    return policy(name, phases=phases)(lambda request: answer or allow())


def codes(caught):
    return [issue.code for issue in caught.value.issues]


@pytest.mark.parametrize("name", ["", "  ", None, 5])
def test_a_policy_has_a_name(name):
    """The audit records it (reference A 74)."""
    with pytest.raises(ConfigurationError):
        policy(name)
    with pytest.raises(ConfigurationError):
        combine(name, named("p"))


@pytest.mark.parametrize("phases", [[], set(), (), frozenset()])
def test_a_policy_without_phases_would_never_run(phases):
    """SI-1: reference A 75: a deny policy with no phase silently let everything pass."""
    with pytest.raises(ConfigurationError) as caught:
        policy("limit", phases=phases)
    assert codes(caught) == ["POLICY_INVALID"]


@pytest.mark.parametrize(
    "phases", ["invocation", {"invokation"}, {"invocation", "later"}, [None], 5, None]
)
def test_unknown_phases_are_refused(phases):
    """SI-1: a typo must not lose a gate (reference A 75)."""
    with pytest.raises(ConfigurationError):
        policy("limit", phases=phases)


@pytest.mark.parametrize("function", [None, "deny", 5, deny()])
def test_a_policy_decorates_a_function(function):
    """An answer is no policy."""
    with pytest.raises(ConfigurationError):
        policy("limit")(function)


def test_a_policy_runs_at_invocation_unless_it_says_otherwise():
    """The default phase (reference A 66)."""
    assert named("p").phases == {"invocation"}


def test_every_problem_is_told_at_once():
    """A blank name and an unknown phase in one error."""
    with pytest.raises(ConfigurationError) as caught:
        policy("", phases={"later"})
    assert len(caught.value.issues) == 2


@pytest.mark.parametrize("wrong", [deny, "limit", None, lambda r: allow()])
def test_what_is_no_policy_is_refused_by_the_engine(wrong):
    """SI-1: a bare function would never be asked."""
    with pytest.raises(ConfigurationError):
        Engine("test", policies=[wrong])


@pytest.mark.parametrize("policies", [named("p"), "p", 5, {named("p")}])
def test_policies_come_in_a_list(policies):
    """A single policy, or a set without order, is refused."""
    with pytest.raises(ConfigurationError):
        Engine("test", policies=policies)


@pytest.mark.parametrize("wrong", [[deny], ["limit"], [None], named("p"), "p"])
def test_what_is_no_policy_is_refused_on_a_capability(wrong):
    """SI-1: at the decorator, not at the first call (reference A 76)."""
    with pytest.raises(ConfigurationError):

        @Engine("test").capability("act", policies=wrong)
        async def act() -> None:
            """Act."""


@pytest.mark.parametrize("phases", [frozenset(), frozenset({"later"}), "invocation"])
@pytest.mark.parametrize("place", ["engine", "capability"])
def test_a_policy_built_by_hand_is_checked_too(phases, place):
    """SI-1: refused at registration, whoever made the object (reference A 75, 76)."""
    handmade = Policy(name="limit", phases=phases, evaluate=lambda r: deny())
    with pytest.raises(ConfigurationError):
        build(**{place: [handmade]})


def build(engine=(), capability=()):
    @Engine("test", policies=engine).capability("act", policies=capability)
    async def act() -> None:
        """Act."""


def test_a_policy_that_lost_its_phases_is_refused():
    """SI-1: `dataclasses.replace` opens no way around the decorator."""
    with pytest.raises(ConfigurationError):
        Engine("test", policies=[replace(named("limit", deny()), phases=frozenset())])


def test_duplicate_names_are_refused_in_one_list():
    """The audit could not tell them apart (reference A 77)."""
    with pytest.raises(ConfigurationError) as caught:
        Engine("test", policies=[named("p"), named("q"), named("p")])
    assert codes(caught) == ["POLICY_DUPLICATE"]


def test_duplicate_names_are_refused_across_engine_and_capability():
    """Both judge the same call."""
    with pytest.raises(ConfigurationError) as caught:

        @Engine("test", policies=[named("p")]).capability("act", policies=[named("p")])
        async def act() -> None:
            """Act."""

    assert "POLICY_DUPLICATE" in codes(caught)


def test_duplicate_names_are_refused_inside_groups():
    """A group does not hide its members' names."""
    with pytest.raises(ConfigurationError):
        Engine("test", policies=[combine("g", named("p")), named("p")])
    with pytest.raises(ConfigurationError):
        combine("g", named("p"), named("p"))


@pytest.mark.parametrize("members", [(), (deny,), ("p",), (named("p"), None)])
def test_a_group_has_members_that_are_policies(members):
    """An empty group would allow everything."""
    with pytest.raises(ConfigurationError):
        combine("g", *members)


def test_the_same_policy_may_judge_two_capabilities():
    """Names must be unique among those that judge one call, no wider."""
    engine, shared = Engine("test"), named("p")
    for id_ in ("a", "b"):

        @engine.capability(id_, policies=[shared])
        async def act() -> None:
            """Act."""

    assert [engine.describe(id_).policies for id_ in ("a", "b")] == [("p",), ("p",)]


def test_a_description_lists_the_members_in_order():
    """What the plan will ask, group members one by one (reference A 78)."""
    engine = Engine("test", policies=[combine("g", named("a"), named("b"))])

    @engine.capability("act", policies=[named("c")])
    async def act() -> None:
        """Act."""

    assert engine.describe("act").policies == ("a", "b", "c")
