"""Actors and contexts for unit tests of plain handlers."""

from __future__ import annotations

import inspect

import pytest

from capgate import Completed, Context, Effect, Library
from capgate.testing import FakeContext, fake_actor, fake_context

shop = Library("shop", "1")


@shop.capability(description="Ship.")
async def ship(context: Context[dict[str, int]], order: str) -> int:
    await context.progress(1, 2, "packed")
    context.logger.debug("shipping")
    return context.deps[order] + await context.invoke("weigh", {"order": order})


def weigh(capability, input, **options):
    return 40


async def weigh_later(capability, input, **options):
    return Completed("exe_9", 40)


def test_an_actor_has_valid_defaults():
    """A plain user without permissions (SI-1)."""
    actor = fake_actor()
    assert (actor.id, actor.kind, actor.permissions) == ("test-user", "user", frozenset())


def test_an_actor_takes_every_field():
    """Fields given replace the defaults."""
    actor = fake_actor(
        id="bot",
        kind="service",
        display_name="Bot",
        permissions=["a"],
        attributes={"region": "eu"},
    )
    assert (actor.id, actor.kind, actor.display_name) == ("bot", "service", "Bot")
    assert (actor.permissions, actor.attributes) == ({"a"}, {"region": "eu"})


@pytest.mark.parametrize("wrong", [{"id": ""}, {"kind": "robot"}, {"permissions": "a"}, {"x": 1}])
def test_an_actor_is_checked(wrong):
    """What is wrong for an actor is wrong for a fake one."""
    with pytest.raises((TypeError, ValueError)):
        fake_actor(**wrong)


@pytest.mark.parametrize("answers", [{"invoke": weigh}, {"attempt": weigh_later}])
async def test_a_handler_runs_with_it(answers):
    """A plain handler is called with a context: no engine, and progress is recorded."""
    context = fake_context({"A1": 2}, **answers)
    assert await ship.handler(context, order="A1") == 42
    assert [(each.done, each.total, each.message) for each in context.progressed] == [
        (1, 2, "packed")
    ]


async def test_attempt_answers_with_the_outcome():
    """`attempt` gives the outcome that the test made, with all the options passed on."""
    seen = []

    async def attempt(capability, input, **options):
        seen.append((capability, input, options))
        return Completed("exe_9", 40, Effect.NONE)

    context = fake_context(attempt=attempt)
    outcome = await context.attempt("weigh", {"order": "A1"}, timeout=3)
    assert outcome.output == 40
    assert seen == [("weigh", {"order": "A1"}, {"timeout": 3})]


@pytest.mark.parametrize("what", ["invoke", "attempt"])
async def test_nested_calls_raise_unless_given(what):
    """A nested call that the test did not speak of fails, and says how to answer it."""
    told = rf"context\.{what}\('weigh'\).*fake_context\({what}="
    with pytest.raises(AssertionError, match=told):
        await getattr(fake_context(), what)("weigh")


async def test_an_answer_to_invoke_is_none_to_attempt():
    """An output is no outcome: `attempt` needs an answer of its own."""
    with pytest.raises(AssertionError, match="attempt"):
        await fake_context(invoke=weigh).attempt("weigh")


def test_ids_follow_the_execution():
    """Correlation id and idempotency key are the execution's unless given, as in an engine."""
    context = fake_context(execution_id="exe_7")
    assert (context.correlation_id, context.idempotency_key) == ("exe_7", "exe_7")
    given = fake_context(execution_id="exe_7", correlation_id="c", idempotency_key="k")
    assert (given.correlation_id, given.idempotency_key) == ("c", "k")


def test_every_field_can_be_given():
    """Each fact of a context is a field."""
    context = fake_context(
        [1], surface="mcp", actor=fake_actor("zoe"), attempt_number=2, deadline=9.0, state={"a": 1}
    )
    assert (context.deps, context.surface, context.actor.id) == ([1], "mcp", "zoe")
    assert (context.attempt_number, context.deadline, context.state) == (2, 9.0, {"a": 1})
    assert (context.approval, context.parent_execution_id) == (None, None)


def test_it_has_everything_a_context_has():
    """Whatever a handler can use of `Context` is there, with the same parameters."""
    public = {name for name in dir(Context) if not name.startswith("_")}
    context = fake_context()
    assert [name for name in public if not hasattr(context, name)] == []
    for name in ("progress", "invoke", "attempt"):
        theirs, ours = getattr(Context, name), getattr(FakeContext, name)
        assert list(inspect.signature(ours).parameters) == list(
            inspect.signature(theirs).parameters
        )


def test_it_is_read_only():
    """A handler that writes to its context fails in the unit test already."""
    with pytest.raises(AttributeError):
        fake_context().actor = fake_actor("mallory")


def test_unknown_fields_are_refused():
    """A field that no context has is a TypeError."""
    with pytest.raises(TypeError, match="bogus"):
        fake_context(bogus=1)


def test_nothing_is_shared():
    """Two contexts share neither state nor progress."""
    first, second = fake_context(), fake_context()
    first.state["a"] = 1
    assert (second.state, first.progressed is second.progressed) == ({}, False)
