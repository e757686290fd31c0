"""Stand-ins for handlers."""

from __future__ import annotations

import functools
import threading

import pytest

from capgate import ConfigurationError, Context, Engine, Library
from capgate.testing import TestEngine


def saying(text):
    """Return a handler that only says this."""

    def handler() -> str:
        return text

    return handler


class Recorder:
    """A stand-in that is an object, sync or async."""

    def __init__(self, *, asynchronous):
        self.seen = []
        self.asynchronous = asynchronous

    def __call__(self, **arguments):
        self.seen.append(arguments)
        return "recorded"


class AsyncRecorder(Recorder):
    async def __call__(self, **arguments):
        assert threading.current_thread() is threading.main_thread()
        return super().__call__(**arguments)


async def stand_in(context, text: str) -> str:
    return f"{context.capability_id} {text}"


@pytest.fixture
def own():
    """An engine with one capability that takes the context, and one that does not."""
    engine = Engine("own")

    @engine.capability(description="With.", tags={"kept"})
    async def full(context: Context, text: str) -> str:
        raise AssertionError("the handler ran")

    @engine.capability(description="Without.")
    def plain(text: str) -> str:
        raise AssertionError("the handler ran")

    return engine


@pytest.mark.parametrize("id_", ["full", "plain"])
@pytest.mark.parametrize(
    "stand_in",
    [
        lambda text: text.upper(),
        lambda **arguments: arguments["text"].upper(),
        lambda *, text, more="": text.upper() + more,
        functools.partial(lambda suffix, text: text.upper() + suffix, ""),
    ],
)
async def test_synchronous_ones_run(own, id_, stand_in):
    """A plain function runs, with the handler's input and without its context."""
    assert await TestEngine(own, overrides={id_: stand_in}).invoke(id_, {"text": "a"}) == "A"


@pytest.mark.parametrize("id_", ["full", "plain"])
async def test_asynchronous_ones_run(own, id_):
    """An async function runs, whatever the handler is."""

    async def shout(text: str) -> str:
        return text.upper()

    assert await TestEngine(own, overrides={id_: shout}).invoke(id_, {"text": "a"}) == "A"


async def test_the_context_comes_under_the_handlers_name(own):
    """A parameter named as the handler's context takes it, annotated or not."""
    engine = TestEngine(own, overrides={"full": stand_in})
    assert await engine.invoke("full", {"text": "a"}) == "full a"


@pytest.mark.parametrize("id_", ["full", "plain"])
async def test_the_context_comes_where_it_is_annotated(own, id_):
    """A parameter annotated Context takes it under any name, for any capability."""

    async def nested(told: Context[None], text: str) -> str:
        return f"{told.capability_id} {text}"

    engine = TestEngine(own, overrides={id_: nested})
    assert await engine.invoke(id_, {"text": "a"}) == f"{id_} a"


async def test_an_annotation_that_is_a_type_counts_too(own):
    """Context is recognised without postponed annotations."""

    def nested(told, text):
        return f"{told.capability_id} {text}"

    for annotation in (Context, Context[int], "capgate.Context[Deps]"):
        nested.__annotations__ = {"told": annotation}
        engine = TestEngine(own, overrides={"plain": nested})
        assert await engine.invoke("plain", {"text": "a"}) == "plain a"


@pytest.mark.parametrize("kind", [Recorder, AsyncRecorder])
async def test_objects_that_can_be_called_run(own, kind):
    """An object with `__call__` runs, on the event loop when that is async."""
    recorder = kind(asynchronous=kind is AsyncRecorder)
    engine = TestEngine(own, overrides={"full": recorder})
    assert await engine.invoke("full", {"text": "a"}) == "recorded"
    assert recorder.seen == [{"text": "a"}]


async def test_what_tells_no_signature_is_tried(own):
    """A builtin that has no signature is taken at its word."""
    outcome = await TestEngine(own, overrides={"plain": dict}).attempt("plain", {"text": "a"})
    assert outcome.error.code == "OUTPUT_INVALID"


async def test_contracts_stay(own):
    """Input is validated before the stand-in, and its output after it (SI-6)."""
    engine = TestEngine(own, overrides={"full": lambda text: 7})
    outcome = await engine.attempt("full", {"text": 7})
    assert outcome.error.code == "INPUT_INVALID"
    outcome = await engine.attempt("full", {"text": "a"})
    assert outcome.error.code == "OUTPUT_INVALID"


def test_metadata_stays(own):
    """All that is known of the capability is what the application declared."""
    engine = TestEngine(own, overrides={"full": lambda text: text})
    assert engine.engine.describe("full").fingerprint == own.describe("full").fingerprint
    (found, *_) = engine.engine.catalog()
    assert found == own.catalog()[0]


async def test_the_handle_still_calls_it(shop):
    """The application's handle reaches the stand-in, and the application its own handler."""
    engine = TestEngine(shop.engine, overrides={"echo": lambda text: "faked"})
    assert await engine.invoke(shop.echo, {"text": "a"}) == "faked"
    assert await shop.engine.invoke(shop.echo, {"text": "a"}, actor=engine.actor) == "a"


async def test_effective_ids_count():
    """A capability that was included under another id is overridden under that id."""
    library = Library("lib", "1")
    handle = library.capability("echo", description="Echo.")(saying("own"))
    own = Engine("own")
    own.include(library, prefix="v1")
    engine = TestEngine(own, overrides={"v1.echo": lambda: "faked"})
    assert await engine.invoke(handle) == "faked"
    with pytest.raises(ConfigurationError, match=r"known: \['v1.echo'\]"):
        TestEngine(own, overrides={"echo": lambda: "faked"})


def generator(text):
    yield text


async def async_generator(text):
    yield text


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (7, "must be callable, got int"),
        (None, "must be callable"),
        (lambda: "", "unexpected keyword argument 'text'"),
        (lambda text, more: "", "missing a required argument: 'more'"),
        (lambda text, /: "", "text"),
        (generator, "generator"),
        (async_generator, "generator"),
    ],
)
def test_what_cannot_stand_in_is_refused(own, wrong, told):
    """A stand-in that could not be called as the handler is a ConfigurationError at once."""
    with pytest.raises(ConfigurationError, match=told) as refused:
        TestEngine(own, overrides={"plain": wrong})
    assert [issue.code for issue in refused.value.issues] == ["OVERRIDE_INVALID"]


def test_every_problem_is_told_at_once(own):
    """Unknown ids name the known ones, beside every other problem."""
    with pytest.raises(ConfigurationError) as refused:
        TestEngine(own, overrides={"plian": print, 7: print, "full": 7})
    assert [(issue.code, issue.where) for issue in refused.value.issues] == [
        ("OVERRIDE_UNKNOWN", "plian"),
        ("OVERRIDE_UNKNOWN", "7"),
        ("OVERRIDE_INVALID", "full"),
    ]
    assert "known: ['full', 'plain']" in str(refused.value)


@pytest.mark.parametrize("wrong", [[print], "plain", print])
def test_overrides_are_a_mapping(own, wrong):
    """Anything but a mapping is a TypeError."""
    with pytest.raises(TypeError, match="overrides must be of type Mapping"):
        TestEngine(own, overrides=wrong)
