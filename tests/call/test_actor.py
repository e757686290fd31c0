"""Actors: captured by copy, immutable, told apart by kind and id."""

from __future__ import annotations

import copy
import pickle

import pytest

from capgate import Actor


class Flag:
    """A mutable attribute value."""

    def __init__(self):
        self.up = False


def test_actor_holds_what_it_was_given():
    """Every field is readable; permissions are a frozen set."""
    actor = Actor("u", "service", display_name="U", permissions=["a", "a"], attributes={"x": 1})
    assert (actor.id, actor.kind, actor.display_name) == ("u", "service", "U")
    assert actor.permissions == frozenset({"a"})
    assert dict(actor.attributes) == {"x": 1}
    assert dict(actor.ref) == {"id": "u", "kind": "service"}


def test_actors_are_equal_by_kind_and_id():
    """Kind and id make an actor; nothing else does."""
    assert Actor("u", display_name="A") == Actor("u", permissions={"x"})
    assert hash(Actor("u")) == hash(Actor("u"))
    assert Actor("u", "user") != Actor("u", "service")
    assert Actor("u") != "u"


def test_anonymous_is_one_actor():
    """The anonymous caller is always the same."""
    assert Actor.anonymous() is Actor.anonymous()
    assert Actor.anonymous().kind == "anonymous"
    assert Actor.anonymous().permissions == frozenset()


@pytest.mark.parametrize("name", ["id", "kind", "permissions", "attributes", "extra"])
def test_actor_cannot_be_changed(name):
    """No field can be set or deleted."""
    actor = Actor("u")
    with pytest.raises(AttributeError):
        setattr(actor, name, "x")
    with pytest.raises(AttributeError):
        delattr(actor, name)


def test_mappings_cannot_be_changed():
    """Attributes and reference are read-only."""
    actor = Actor("u", attributes={"x": 1})
    with pytest.raises(TypeError):
        actor.attributes["x"] = 2
    with pytest.raises(TypeError):
        actor.ref["id"] = "v"


def test_later_changes_have_no_effect():
    """What was given is copied, nested values too."""
    attributes = {"groups": ["a"]}
    actor = Actor("u", attributes=attributes)
    attributes["groups"].append("b")
    attributes["new"] = True
    assert dict(actor.attributes) == {"groups": ["a"]}


@pytest.mark.parametrize("id_", [1, None, b"u", True])
def test_an_id_is_a_str(id_):
    """Another type of id is a TypeError."""
    with pytest.raises(TypeError, match="id"):
        Actor(id_)


@pytest.mark.parametrize("id_", ["", " ", "\t\n"])
def test_an_id_is_not_blank(id_):
    """A blank id is a ValueError."""
    with pytest.raises(ValueError, match="blank"):
        Actor(id_)


@pytest.mark.parametrize("kind", ["admin", "", "User", None, 1])
def test_a_kind_is_a_known_one(kind):
    """An unknown kind is a ValueError naming the known ones."""
    with pytest.raises(ValueError, match="anonymous, automation, service, user"):
        Actor("u", kind)


@pytest.mark.parametrize(
    "field",
    [
        {"display_name": 1},
        {"permissions": "read"},
        {"permissions": [1]},
        {"attributes": ["x"]},
        {"attributes": {1: "x"}},
    ],
)
def test_fields_have_their_types(field):
    """A field of another type is a TypeError; a single str is no collection of permissions."""
    with pytest.raises(TypeError):
        Actor("u", **field)


def test_actor_survives_copy_and_pickle():
    """A copy and a pickle have every field."""
    actor = Actor("u", "service", display_name="U", permissions={"p"}, attributes={"x": [1]})
    for twin in (copy.copy(actor), copy.deepcopy(actor), pickle.loads(pickle.dumps(actor))):
        assert twin == actor
        assert twin.display_name == "U"
        assert twin.permissions == {"p"}
        assert dict(twin.attributes) == {"x": [1]}


def test_a_deep_copy_shares_nothing_mutable():
    """A deep copy has attribute values of its own."""
    actor = Actor("u", attributes={"flag": Flag()})
    twin = copy.deepcopy(actor)
    twin.attributes["flag"].up = True
    assert actor.attributes["flag"].up is False


def test_repr_tells_no_attributes():
    """The repr shows id and kind only."""
    actor = Actor("u", display_name="secret", attributes={"token": "secret"})
    assert repr(actor) == "Actor('u', 'user')"


def test_actor_cannot_be_subclassed_into_a_lie():
    """A look-alike is not equal to an actor."""

    class Fake:
        id = "u"
        kind = "user"

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 0

    assert Actor("u").__eq__(Fake()) is NotImplemented
