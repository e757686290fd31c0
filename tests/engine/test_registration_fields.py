"""The fields of a declaration, as an engine takes them: checked, captured, told all at once."""

from __future__ import annotations

import pytest

from capgate import Actor, CapabilityError, ConfigurationError, Engine, Library, allow, policy

DANA = Actor("u_dana")


async def one() -> int:
    """Give one."""
    return 1


def rule(name):
    return policy(name)(lambda request: allow())


def ids(engine):
    return [line.id for line in engine.catalog()]


def codes(caught):
    return sorted({issue.code for issue in caught.value.issues})


@pytest.mark.parametrize("typo", ["aproval", "acess", "exposed", "policy", "retries", "sideEffect"])
def test_a_misspelt_field_is_refused(typo):
    """An unknown field of a declaration is refused: no gate is lost to a typo (SI-1)."""
    with pytest.raises(ConfigurationError, match=typo) as caught:
        Engine("test").capability("a", **{typo: None})(one)
    assert codes(caught) == ["OPTION_UNKNOWN"]


async def test_what_was_declared_is_captured():
    """Changing the objects of a declaration afterwards changes nothing."""
    expose, tags, policies, facts = {"test"}, ["a"], [rule("p")], {"deep": [1]}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    engine = Engine("test")

    async def cap(n: int = 0) -> int:
        """Give back."""
        return n

    engine.capability(
        "cap", expose=expose, tags=tags, policies=policies, annotations=facts, input_schema=schema
    )(cap)
    before = engine.describe("cap")
    expose.add("direct")
    tags.append("b")
    policies.clear()
    facts["deep"].append(2)
    schema["properties"]["n"]["type"] = "string"
    assert engine.describe("cap") == before
    assert before.policies == ("p",)
    with pytest.raises(CapabilityError, match="CAPABILITY_NOT_FOUND"):
        await engine.invoke("cap", actor=DANA)
    assert await engine.invoke("cap", {"n": 1}, actor=DANA, surface="test") == 1


def test_every_problem_of_a_declaration_is_told_at_once():
    """One ConfigurationError names everything that is wrong with one capability."""
    engine = Engine("test")

    async def cap(n): ...

    with pytest.raises(ConfigurationError) as caught:
        engine.capability("Bad Id", risk="lo", timeout=0, tags="x", access="nobody")(cap)
    where = {issue.where.rsplit(".", 1)[-1] for issue in caught.value.issues}
    assert {"id", "risk", "timeout", "tags", "access", "description"} <= where
    assert ids(engine) == []


@pytest.mark.parametrize("surface", ["mcp", "http", "tools", "cli", "workflow"])
def test_reach_beyond_the_process_is_declared_explicitly(surface):
    """On any surface but direct and test, side effect and risk must be said."""
    engine = Engine("test")
    with pytest.raises(ConfigurationError) as caught:
        engine.capability("a", expose={surface})(one)
    assert {issue.where for issue in caught.value.issues} == {"a.side_effect", "a.risk"}
    engine.capability("a", expose={surface}, side_effect="read", risk="low")(one)


def test_problems_of_all_libraries_are_told_together():
    """Collisions and what the engine cannot take of each capability come in one error."""
    first, second = Library("one", "1"), Library("two", "1")
    for library in (first, second):
        library.capability("same")(one)
    first.capability("lost", expose={"moon"}, side_effect="read", risk="low")(one)
    second.capability("clash", policies=[rule("engine-wide")])(one)
    with pytest.raises(ConfigurationError) as caught:
        Engine("test", policies=[rule("engine-wide")], libraries=[first, second])
    text = str(caught.value)
    assert all(word in text for word in ("same", "moon", "engine-wide"))
