"""Composing: order, prefixes, selection, new names, and every conflict at once."""

from __future__ import annotations

import pytest

from capgate import CompositionError, ConfigurationError, Library
from capgate.capability import Include, compose, local, unknown_surfaces
from capgate.errors import (
    IdCollision,
    ImportIdNotFound,
    ImportInvalid,
    RemapNotSelected,
    is_composition_error,
)


@pytest.fixture
def library():
    """Build a library of ids."""

    def build(*ids, name="lib", **options):
        made = Library(name, "1")
        for each in ids:

            @made.capability(each, **options)
            def handler() -> None:
                """Does nothing."""

        return made

    return build


def issues_of(*args):
    with pytest.raises(CompositionError) as caught:
        compose(*args)
    return caught.value.issues


def locals_of(library):
    return [local(handle) for handle in library.capabilities.values()]


def test_what_is_declared_comes_first_then_libraries_in_order(library):
    """The order is that of the declarations, whatever the ids are (reference B 38, 56)."""
    own, one, two = library("b", "2"), library("1", "z"), library("a")
    assert list(compose(locals_of(own), [one, two])) == ["b", "2", "1", "z", "a"]


def test_a_prefix_stands_before_every_id(library):
    """A prefixed library keeps its names behind the prefix and a dot; handles stay the same."""
    made = library("orders.get", "ping")
    found = compose([], [Include(library=made, prefix="shop.eu")])
    assert list(found) == ["shop.eu.orders.get", "shop.eu.ping"]
    composed = found["shop.eu.ping"]
    assert composed.definition.id == "shop.eu.ping"
    assert composed.handle is made.capabilities["ping"]
    assert str(composed.provenance) == "ping (library lib 1)"


def test_selection_keeps_the_librarys_order(library):
    """Only what is selected is included, in the library's order; an empty list is nothing."""
    made = library("a", "b", "c")
    assert list(compose([], [Include(library=made, select=["c", "a", "a"])])) == ["a", "c"]
    assert compose([], [Include(library=made, select=[])]) == {}


def test_a_new_name_changes_the_id_and_not_the_place(library):
    """Remapping keeps the position, frees the old id, and may swap two (reference B 59-63)."""
    made = library("a", "b")
    assert list(compose([], [Include(library=made, remap={"a": "z"})])) == ["z", "b"]
    swapped = compose([], [Include(library=made, remap={"a": "b", "b": "a"})])
    assert [swapped[key].handle.id for key in ("b", "a")] == ["a", "b"]
    assert list(compose([], [Include(library=made, remap={"a": "a"})])) == ["a", "b"]
    reused = compose(locals_of(library("a")), [Include(library=made, remap={"a": "x"})])
    assert list(reused) == ["a", "x", "b"]


def test_every_claim_on_an_id_is_in_one_issue(library):
    """A collision lists all its claims in composition order (reference B 71-75)."""
    own, one = library("a"), library("a", "b", name="one")
    found = issues_of(locals_of(own), [one, Include(library=one, remap={"b": "a"})])
    assert [type(each) for each in found] == [IdCollision]
    assert [str(each) for each in found[0].declarations] == [
        "a (local)",
        "a (library one 1)",
        "a (library one 1)",
        "b (library one 1)",
    ]


def test_all_problems_are_found_in_one_pass(library):
    """Collisions first, by id, then the rest as found (reference B 66-77)."""
    made = library("a", "b", name="one")
    found = issues_of(
        locals_of(library("b", "a")),
        [
            made,
            "not a library",
            Include(library=made, select=["a", "nope"], remap={"nope": "x", "b": "y", "huh": "z"}),
            Include(library=made, prefix="Bad Prefix"),
            Include(library=made, prefix="p", remap={"a": "No Id"}),
        ],
    )
    assert [type(each).__name__ for each in found] == [
        "IdCollision", "IdCollision", "ImportInvalid", "ImportIdNotFound", "ImportIdNotFound",
        "RemapNotSelected", "Issue", "Issue",
    ]  # fmt: skip
    assert [each.effective_id for each in found[:2]] == ["a", "b"]
    assert isinstance(found[2], ImportInvalid)
    assert isinstance(found[3], ImportIdNotFound)
    assert isinstance(found[5], RemapNotSelected)


def test_an_unknown_id_is_reported_once(library):
    """The same unknown id in select and remap is one issue (reference B 69)."""
    include = Include(library=library("a"), select=["x", "x"], remap={"x": "y"})
    assert len(issues_of([], [include])) == 1


@pytest.mark.parametrize(
    ("field", "value"), [("select", "a"), ("select", [1]), ("remap", ["a"]), ("remap", {"a": 1})]
)
def test_a_malformed_include_is_an_issue(library, field, value):
    """What is no selection or no mapping is reported with the library's name (reference B 54)."""
    found = issues_of([], [Include(library=library("a"), **{field: value})])
    assert found[0].where == f"include(lib).{field}"


def test_a_composition_error_names_no_handler_and_leaves_nothing_behind(library):
    """Issues hold names only, and a later composition works (reference B 78, 82)."""
    made = library("a")
    with pytest.raises(CompositionError) as caught:
        compose([], [made, made])
    assert is_composition_error(caught.value)
    assert isinstance(caught.value, TypeError)
    assert "handler" not in str(caught.value)
    assert list(compose([], [made])) == ["a"]


def test_names_that_mean_something_to_python_are_plain_ids(library):
    """An id is a key and never an attribute (reference B 29, 85)."""
    ids = ["constructor", "keys", "items", "0"]
    assert list(compose([], [library(*ids)])) == ids


def test_ten_thousand_declarations_compose(library):
    """Composition is one flat pass: no recursion, and five thousand collisions (reference B 83)."""
    handle = local(library("a").capabilities["a"])
    named = [handle._replace(definition=handle.definition.renamed(f"c.x{n}")) for n in range(5000)]
    assert len(compose(named)) == 5000
    found = issues_of(named + named)
    assert [each.effective_id for each in found] == sorted(f"c.x{n}" for n in range(5000))


def test_one_library_in_two_engines_shares_nothing_that_changes(library):
    """Composing twice gives two definitions under two ids of one handle (reference B 89)."""
    made = library("a")
    one = compose([], [Include(library=made, prefix="x")])["x.a"]
    two = compose([], [Include(library=made, prefix="y")])["y.a"]
    assert (one.definition.id, two.definition.id) == ("x.a", "y.a")
    assert one.definition.fingerprint == two.definition.fingerprint
    assert made.capabilities["a"].id == "a"


def test_surfaces_an_engine_must_declare_are_found(library):
    """A surface that is neither built in nor declared by the engine is named."""
    made = library("a", expose={"direct", "batch", "desk"}, side_effect="read", risk="low")
    definition = made.capabilities["a"].definition
    assert unknown_surfaces(definition) == ("batch", "desk")
    assert unknown_surfaces(definition, {"batch", "desk"}) == ()


def test_a_library_declares_an_id_once(library):
    """The same id twice in one library is refused where the second is declared."""
    with pytest.raises(ConfigurationError, match="declares this id twice"):
        library("a", "a")


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("l", " "), (None, "1"), ("l", 1)])
def test_a_library_has_a_name_and_a_version(name, version):
    """Blank or foreign names and versions are refused (reference B 46)."""
    with pytest.raises(ConfigurationError):
        Library(name, version)


def test_a_librarys_capabilities_cannot_be_changed_from_outside(library):
    """What a library shows is read-only (reference B 48)."""
    with pytest.raises(TypeError):
        library("a").capabilities["b"] = None
