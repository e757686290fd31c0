"""How deep a value may go, and what refers to itself."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from capgate.capability import ContractViolation

OPEN = {"type": "object", "properties": {"x": {}}, "required": ["x"]}


class Tree(BaseModel):
    kids: list[Tree] = []


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def tree(levels):
    value = {}
    for _ in range(levels - 1):
        value = {"kids": [value]}
    return value


@pytest.mark.parametrize("options", [{}, {"input_schema": OPEN}])
def test_sixty_four_levels_pass_and_sixty_five_do_not(contract, issues, options):
    """The default limit is 64 containers, the input object counted."""

    def handler(x: Any) -> None: ...

    made = contract(handler, **options)
    assert made.validate_input({"x": nested(63)}) == {"x": nested(63)}
    found = issues(made.validate_input, {"x": nested(64)})
    assert found[0]["message"] == "Nested too deeply, or refers to itself."


def test_a_recursive_model_has_the_same_limit(accepts, issues):
    """A model of itself is measured in containers too: an object and a list a level."""
    made = accepts(list[Tree])
    assert made.validate_output([tree(31)])
    assert issues(made.validate_output, [tree(33)])
    assert issues(made.validate_output, [tree(5000)])


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_the_limit_can_be_changed(contract, issues, limit):
    """The same contract with another limit measures with that one, both ways."""

    def handler(x: Any) -> Any: ...

    made = contract(handler).with_depth(limit)
    assert made.validate_input({"x": nested(limit - 1)})
    assert issues(made.validate_input, {"x": nested(limit)})
    assert made.validate_output(nested(limit))
    assert issues(made.validate_output, nested(limit + 1))


def test_a_type_deeper_than_the_limit_is_measured_too(contract, issues):
    """A limit below the depth of the declared type itself refuses full values."""

    def handler(x: list[list[int]]) -> None: ...

    made = contract(handler).with_depth(2)
    assert made.validate_input({"x": []}) == {"x": []}
    assert issues(made.validate_input, {"x": [[1]]})


def test_the_same_limit_is_the_same_contract(contract):
    """Asking for the limit it has already costs nothing."""

    def handler(x: Any) -> None: ...

    made = contract(handler)
    assert made.with_depth(64) is made


@pytest.mark.parametrize("options", [{}, {"input_schema": OPEN}])
@pytest.mark.parametrize("kind", ["list", "dict"])
def test_a_cycle_is_refused(contract, issues, options, kind):
    """A value that holds itself is refused (reference B 119)."""

    def handler(x: Any) -> None: ...

    value = [] if kind == "list" else {}
    value.append(value) if kind == "list" else value.update(me=value)
    assert issues(contract(handler, **options).validate_input, {"x": value})


def test_a_cycle_of_models_is_refused(accepts, issues):
    """A model that was made to hold itself is refused on the way out."""
    root = Tree()
    root.kids.append(root)
    assert issues(accepts(Tree | None).validate_output, root)


def test_a_hundred_thousand_levels_are_refused_and_not_a_crash(contract, accepts):
    """Depth far beyond the stack is an ordinary refusal (reference B 126)."""
    for made in (accepts(Any), accepts(list), accepts(list[list[int]])):
        with pytest.raises(ContractViolation):
            made.validate_input({"x": nested(100_000)})


def test_a_model_used_twice_is_measured_where_it_stands(contract, issues):
    """A definition shared by two fields counts at the deeper of its places."""

    class Leaf(BaseModel):
        values: list[int] = []

    class Box(BaseModel):
        leaf: Leaf = Leaf()

    def handler(flat: Leaf, boxed: list[Box], again: Leaf | None = None) -> None: ...

    made = contract(handler).with_depth(5)
    raw = {"flat": {"values": [1]}, "boxed": [{"leaf": {"values": [1]}}]}
    assert made.validate_input(raw)["boxed"][0].leaf.values == [1]
    assert issues(made.with_depth(4).validate_input, raw)


def test_any_inside_a_shared_model_is_measured_too(contract, issues):
    """An open field of a definition that is used twice keeps to the limit as a whole."""

    class Loose(BaseModel):
        data: Any = None

    def handler(one: Loose, many: list[Loose]) -> None: ...

    made = contract(handler)
    assert made.validate_input({"one": {"data": nested(62)}, "many": []})
    assert issues(made.validate_input, {"one": {"data": nested(63)}, "many": []})
    assert issues(made.validate_input, {"one": {}, "many": [{"data": nested(62)}]})


def test_a_capability_with_another_limit_is_the_same_capability(declare):
    """Changing the limit changes the contract and neither the id nor the fingerprint."""

    def handler(x: Any) -> None: ...

    definition = declare(handler).definition
    other = definition.with_depth(3)
    assert definition.with_depth(64) is definition
    assert (other.contract.max_depth, other.id) == (3, definition.id)
    assert other.fingerprint == definition.fingerprint
