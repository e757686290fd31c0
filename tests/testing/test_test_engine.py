"""A real engine with its seams faked, built from the application's."""

from __future__ import annotations

import pytest

from capgate import (
    Actor,
    CapabilityError,
    Context,
    Engine,
    Library,
    deny,
    policy,
    requires,
)
from capgate.testing import CapturedAudit, FakeClock, TestEngine, counting_ids, fake_actor


def saying(text):
    """Return a handler that only says this."""

    def handler() -> str:
        return text

    return handler


async def authenticate(credentials):
    return Actor(credentials)


def told(engine, description="Tell."):
    """Declare a capability that tells who calls and with what deps."""

    @engine.capability("tell", description=description)
    async def tell(context: Context) -> list[str]:
        return [context.actor.id, str(context.deps), context.surface]

    return tell


def test_pytest_does_not_collect_it():
    """Its name begins as a test's does, and it says that it is none."""
    assert TestEngine.__test__ is False


async def test_what_a_call_leaves_out_is_filled_in(shop):
    """Actor, deps and surface have defaults, and what the call says wins."""
    tell = told(shop.engine)
    engine = TestEngine(shop.engine, actor=fake_actor("zoe"), deps="fakes")
    assert await engine.invoke(tell) == ["zoe", "fakes", "direct"]
    given = await engine.invoke(tell, actor=fake_actor("max"), deps="mine", surface="direct")
    assert given == ["max", "mine", "direct"]
    assert (await engine.attempt(tell)).output == ["zoe", "fakes", "direct"]


async def test_the_applications_own_deps_are_the_last_resort(shop):
    """Without deps of the test, the engine's own value or factory serves."""
    tell = told(shop.engine)
    assert (await TestEngine(shop.engine).invoke(tell))[1] == "shop-deps"
    made = Engine("made", deps=lambda invocation: f"for {invocation.capability.id}")
    tell = told(made)
    assert (await TestEngine(made).invoke(tell))[1:] == ["for tell", "direct"]


async def test_deps_are_a_value_even_when_they_can_be_called(shop):
    """Deps of a test are never taken for a factory."""
    engine = TestEngine(shop.engine, deps=print)
    assert (await engine.invoke(told(engine.engine)))[1] == str(print)


async def test_nobody_is_a_caller_too(shop):
    """An explicitly anonymous caller is not replaced (SI-1)."""
    outcome = await TestEngine(shop.engine).attempt("echo", {"text": "a"}, actor=Actor.anonymous())
    assert outcome.error.code == "UNAUTHENTICATED"


async def test_the_default_actor_may_do_nothing_special():
    """The default actor has no permissions: a test grants what it needs (SI-1)."""
    own = Engine("own")
    own.capability("guarded", description="G.", access=requires("a:b"))(saying("done"))
    assert (await TestEngine(own).attempt("guarded")).error.code == "FORBIDDEN"
    engine = TestEngine(own, actor=fake_actor(permissions={"a:b"}))
    assert await engine.invoke("guarded") == "done"


async def test_credentials_are_not_mixed_with_the_default_actor():
    """A call with credentials goes through the application's authenticator."""
    own = Engine("own", authenticate=authenticate)
    tell = told(own)
    engine = TestEngine(own)
    assert (await engine.invoke(tell, credentials="max"))[0] == "max"
    assert await engine.discover(credentials="max") != []
    assert (await engine.explain(tell, credentials="max")).verdict == "would-execute"


async def test_ids_count(shop):
    """Ids are the same in every run."""
    for _ in range(2):
        engine = TestEngine(shop.engine)
        outcomes = [await engine.attempt("echo", {"text": "a"}) for _ in range(2)]
        assert [outcome.execution_id for outcome in outcomes] == ["exe_1", "exe_2"]
        asked = await engine.attempt("refund", {"order": "A1"})
        assert (asked.execution_id, asked.approval.id) == ("exe_3", "apr_4")


async def test_ids_can_be_shared(shop):
    """Engines with one maker of ids never make the same."""
    new_id = counting_ids()
    outcomes = [
        await TestEngine(shop.engine, new_id=new_id).attempt("echo", {"text": "a"})
        for _ in range(2)
    ]
    assert [outcome.execution_id for outcome in outcomes] == ["exe_1", "exe_2"]


async def test_time_is_the_tests(shop):
    """Events and requests are stamped by the fake clock."""
    clock = FakeClock("2030-01-01T00:00:00Z")
    engine = TestEngine(shop.engine, clock=clock)
    assert engine.clock is clock
    outcome = await engine.attempt("refund", {"order": "A1"})
    clock.advance("1d")
    await engine.invoke("echo", {"text": "a"})
    assert outcome.approval.requested_at.year == 2030
    assert {event.timestamp.day for event in engine.audit.events} == {1, 2}


async def test_the_application_is_left_as_it_was(shop):
    """Nothing of the original is written, counted, stored or closed."""
    before = (shop.engine.parts, shop.engine.catalog())
    async with TestEngine(shop.engine, overrides={"echo": lambda text: "faked"}) as engine:
        await engine.invoke("echo", {"text": "a"})
        await engine.attempt("refund", {"order": "A1"})
    assert shop.audit.events == []
    assert await shop.engine.approvals.find() == []
    assert (shop.engine.parts.settings, shop.engine.catalog()) == (before[0].settings, before[1])
    told(shop.engine)  # not entered: it can still be added to
    assert await shop.engine.invoke(shop.echo, {"text": "a"}, actor=fake_actor()) == "a"


async def test_closed_it_takes_no_more_calls(shop):
    """It is entered and closed as an engine is."""
    async with TestEngine(shop.engine) as engine:
        assert await engine.invoke("echo", {"text": "a"}) == "a"
    with pytest.raises(RuntimeError, match="closed"):
        await engine.invoke("echo", {"text": "a"})


async def test_it_can_be_built_of_an_engine_that_runs(shop):
    """An entered engine, and one that is closed, can still be tested."""
    async with shop.engine:
        assert await TestEngine(shop.engine).invoke("echo", {"text": "a"}) == "a"
    assert await TestEngine(shop.engine).invoke("echo", {"text": "b"}) == "b"


async def test_libraries_make_an_engine():
    """Libraries and policies are enough, without an application."""

    @policy("closed", phases={"invocation"})
    def closed(request) -> object:
        return deny("We are closed.")

    library = Library("lib", "1")
    hello = library.capability("hello", description="H.")(saying("hello"))
    assert await TestEngine(libraries=[library]).invoke(hello) == "hello"
    outcome = await TestEngine(libraries=[library], policies=[closed]).attempt("hello")
    assert outcome.error.code == "POLICY_DENIED"


async def test_an_empty_one_can_be_filled():
    """Capabilities can be declared on its engine directly."""
    engine = TestEngine()
    tell = told(engine.engine)
    assert await engine.invoke(tell) == ["test-user", "None", "direct"]


async def test_discover_and_explain(shop):
    """Discovery and explanation have the same defaults."""
    engine = TestEngine(shop.engine)
    assert [found.id for found in await engine.discover()] == ["echo", "refund"]
    assert [found.id for found in await engine.discover("direct", actor=fake_actor("x"))] != []
    explained = await engine.explain(shop.refund, {"order": "A1"})
    assert explained.verdict == "approval-required"
    assert shop.ran == []


async def test_resuming_keeps_the_requester(shop):
    """Without an actor the requester's own call is resumed, whoever the default actor is."""
    engine = TestEngine(shop.engine)
    asked = await engine.attempt("refund", {"order": "A1"}, actor=fake_actor("zoe"))
    await engine.approvals.approve(asked.approval.id)
    strange = await engine.attempt_resume(asked.approval.id, actor=fake_actor("max"))
    assert strange.error.code == "APPROVAL_NOT_FOUND"
    assert await engine.resume(asked.approval.id, expected_surface="direct") == {"A1": 3}
    (started,) = engine.audit.of_type("capability.started")
    assert started.actor["id"] == "zoe"


async def test_failures_are_raised_by_invoke_and_resume(shop):
    """`invoke` and `resume` raise what `attempt` and `attempt_resume` return."""
    engine = TestEngine(shop.engine)
    with pytest.raises(CapabilityError, match="INPUT_INVALID"):
        await engine.invoke("echo", {"text": 7})
    with pytest.raises(CapabilityError, match="APPROVAL_NOT_FOUND"):
        await engine.resume("apr_404")
    with pytest.raises(TypeError, match="bogus"):
        await engine.invoke("echo", {"text": "a"}, bogus=1)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"engine": "shop"}, "engine must be an Engine, got str"),
        ({"engine": Engine}, "engine must be an Engine, got type"),
        ({"actor": "zoe"}, "actor must be of type Actor, got str"),
        ({"clock": 0}, "clock must be of type FakeClock, got int"),
        ({"audit": []}, "audit must be of type CapturedAudit, got list"),
        ({"engine": Engine("own"), "libraries": [Library("l", "1")]}, "not both"),
        ({"bogus": 1}, "bogus"),
    ],
)
def test_wrong_arguments_are_refused(wrong, told):
    """What it cannot be built of is a TypeError that names the argument."""
    with pytest.raises(TypeError, match=told):
        TestEngine(**wrong)


def test_its_audit_can_be_shared(shop):
    """Several engines can write to one audit."""
    audit = CapturedAudit()
    assert TestEngine(shop.engine, audit=audit).audit is audit
