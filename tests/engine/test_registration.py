"""Registering capabilities: what an engine takes, and everything it refuses at once."""

from __future__ import annotations

import functools

import pytest

from capgate import (
    Actor,
    CapabilityError,
    CompositionError,
    ConfigurationError,
    Engine,
    Library,
    allow,
    policy,
)
from capgate.errors import is_composition_error

DANA = Actor("u_dana")


async def one() -> int:
    """Give one."""
    return 1


def rule(name):
    return policy(name)(lambda request: allow())


def library_of(*names, title="lib"):
    """Build a library with capabilities of these ids."""
    library = Library(title, "1.0")
    for name in names:
        library.capability(name)(one)
    return library


def ids(engine):
    return [line.id for line in engine.catalog()]


def codes(caught):
    return sorted({issue.code for issue in caught.value.issues})


async def test_both_forms_of_the_decorator_register():
    """`@engine.capability` works bare and called; the id comes from the function's name."""
    engine = Engine("test")

    @engine.capability
    async def bare() -> int:
        """Give one."""
        return 1

    @engine.capability()
    async def called() -> int:
        """Give two."""
        return 2

    @engine.capability("named.here")
    def other() -> int:
        """Give three."""
        return 3

    assert ids(engine) == [bare.id, called.id, other.id] == ["bare", "called", "named.here"]
    assert [await engine.invoke(each, actor=DANA) for each in (bare, called, other)] == [1, 2, 3]


async def test_a_handle_cannot_be_called():
    """Calling a handle is a TypeError that names `engine.invoke`; its `.handler` runs."""
    engine = Engine("test")
    handle = engine.capability(one)
    with pytest.raises(TypeError, match=r"engine\.invoke.*\.handler"):
        handle()
    assert await handle.handler() == 1


@pytest.mark.parametrize(
    "register",
    [
        lambda engine: engine.capability("late")(one),
        lambda engine: engine.include(library_of("late")),
    ],
)
async def test_an_entered_engine_takes_no_more(register):
    """Once entered, an engine refuses to register, and says so; what it has goes on working."""
    engine = Engine("test", libraries=[library_of("a")])
    async with engine:
        with pytest.raises(Exception, match="entered") as caught:
            register(engine)
        assert not isinstance(caught.value, CapabilityError)
        assert ids(engine) == ["a"]
        assert await engine.invoke("a", actor=DANA) == 1


async def test_a_closed_engine_takes_no_calls():
    """After closing, a call is refused with an error that says so."""
    engine = Engine("test", libraries=[library_of("a")])
    async with engine:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        await engine.invoke("a", actor=DANA)
    with pytest.raises(RuntimeError):
        async with engine:
            pass


def test_a_library_is_included_whole_renamed_or_in_part():
    """`prefix`, `select` and `remap` decide the effective ids, in the library's order."""
    engine = Engine("test")
    engine.include(library_of("a.x", "b", "c"), prefix="far", select=["c", "b"], remap={"b": "d"})
    engine.include(library_of("a.x"))
    assert ids(engine) == ["far.d", "far.c", "a.x"]


def test_every_problem_of_a_composition_is_told_at_once():
    """Collisions, unknown ids and remaps of what is not selected come in one CompositionError."""
    engine = Engine("test")
    engine.capability("a")(one)
    with pytest.raises(CompositionError) as caught:
        engine.include(library_of("a", "b"), select=["a", "nope"], remap={"b": "x", "gone": "y"})
    assert {"CAPABILITY_IMPORT_ID_NOT_FOUND", "CAPABILITY_REMAP_NOT_SELECTED"} <= set(codes(caught))
    with pytest.raises(CompositionError) as caught:
        Engine("test", libraries=[library_of("a", "b"), library_of("b", "a", title="two")])
    assert codes(caught) == ["CAPABILITY_ID_COLLISION"]
    assert len(caught.value.issues) == 2
    assert caught.value.code == "CAPABILITY_COMPOSITION_INVALID"
    assert is_composition_error(caught.value)


def test_a_refused_include_registers_nothing():
    """Of a composition that is refused, nothing is kept."""
    engine = Engine("test")
    engine.capability("a")(one)
    with pytest.raises(CompositionError):
        engine.include(library_of("new", "a"))
    assert ids(engine) == ["a"]


def test_a_second_declaration_of_an_id_is_a_collision():
    """Declaring an id twice on one engine is refused; the first stays."""
    engine = Engine("test")
    engine.capability("a")(one)
    with pytest.raises(ConfigurationError):
        engine.capability("a")(one)
    assert ids(engine) == ["a"]


@pytest.mark.parametrize("junk", [None, 3, "lib", object(), [], Library])
def test_what_is_no_library_is_refused(junk):
    """Only libraries can be included: CAPABILITY_IMPORT_INVALID, at construction and later."""
    for build in (lambda: Engine("test", libraries=[junk]), lambda: Engine("test").include(junk)):
        with pytest.raises(CompositionError) as caught:
            build()
        assert codes(caught) == ["CAPABILITY_IMPORT_INVALID"]


@pytest.mark.parametrize("junk", [3, "lib", None, object()])
def test_libraries_must_be_a_list(junk):
    """`libraries=` that is no list is a typed error at once."""
    with pytest.raises(TypeError):
        Engine("test", libraries=junk)


@pytest.mark.parametrize("through", ["engine", "library"])
def test_an_unknown_surface_is_refused(through):
    """A surface that is neither built in nor in `Engine(surfaces=…)` is a ConfigurationError."""
    fields = {"expose": {"direct", "moon"}, "side_effect": "read", "risk": "low"}
    library = Library("lib", "1")
    library.capability("a", **fields)(one)

    def build(**settings):
        if through == "library":
            return Engine("test", libraries=[library], **settings)
        engine = Engine("test", **settings)
        engine.capability("a", **fields)(one)
        return engine

    with pytest.raises(ConfigurationError, match="moon"):
        build()
    assert ids(build(surfaces={"moon"})) == ["a"]


def test_policy_names_are_unique_per_capability():
    """A capability's policy may not share its name with one of the engine's."""
    with pytest.raises(ConfigurationError, match="same"):
        Engine("test", policies=[rule("same"), rule("same")])
    engine = Engine("test", policies=[rule("same")])
    with pytest.raises(ConfigurationError, match="same"):
        engine.capability("a", policies=[rule("same")])(one)
    assert ids(engine) == []


async def test_a_handle_belongs_by_identity():
    """A handle works on every engine that includes it, prefixed or not; elsewhere it is foreign."""
    library = Library("lib", "1")
    handle = library.capability("a")(one)
    engine, other = Engine("test"), Engine("other")
    engine.include(library, prefix="far")
    assert await engine.invoke(handle, actor=DANA) == 1
    for call in (other.invoke, other.attempt, other.explain):
        with pytest.raises(TypeError, match="does not belong"):
            await call(handle, actor=DANA)
    with pytest.raises(TypeError, match="does not belong"):
        other.describe(handle)


async def test_an_ambiguous_handle_is_refused():
    """A handle that is registered twice needs its id: TypeError that names the ids."""
    library = Library("lib", "1")
    handle = library.capability("a")(one)
    engine = Engine("test", libraries=[library])
    engine.include(library, prefix="far")
    with pytest.raises(TypeError, match=r"far\.a"):
        await engine.invoke(handle, actor=DANA)
    assert await engine.invoke("far.a", actor=DANA) == 1


@pytest.mark.parametrize(
    "junk",
    [None, 3, b"a", ["a"], {"a"}, object(), one, functools.partial(one), Engine, ("a", "b")],
)
async def test_what_names_no_capability_is_a_type_error(junk):
    """A capability that is neither an id nor a handle is a TypeError at once."""
    engine = Engine("test", libraries=[library_of("a")])
    for call in (engine.invoke, engine.attempt, engine.explain):
        with pytest.raises(TypeError):
            await call(junk, actor=DANA)
    with pytest.raises(TypeError):
        engine.describe(junk)


async def test_one_library_serves_two_engines():
    """Engines do not share what they make of a library."""
    library = library_of("a")
    first, second = Engine("one", libraries=[library]), Engine("two", policies=[rule("p")])
    second.include(library)
    assert first.describe("a").policies == ()
    assert second.describe("a").policies == ("p",)
    library.capability("late")(one)
    assert ids(first) == ["a"]
