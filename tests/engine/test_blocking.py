"""The engine for synchronous callers: the same calls without await, in no event loop."""

from __future__ import annotations

import threading

import pytest

from capgate import Actor, ApprovalRule, CancelToken, CapabilityError, Context, Engine
from capgate.audit import MemoryAudit

ALICE = Actor("usr_alice")
BOB = Actor("usr_bob")


@pytest.fixture
def audit():
    """Every event of the engine."""
    return MemoryAudit()


@pytest.fixture
def engine(audit):
    """An engine with an async, a sync and an approved capability."""

    async def authenticate(credentials):
        return ALICE if credentials == "card" else None

    engine = Engine("shop", audit=audit, authenticate=authenticate)

    @engine.capability("add", access="public")
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @engine.capability("thread", access="public")
    def thread() -> str:
        """Say which thread."""
        return threading.current_thread().name

    @engine.capability("refund", approval=ApprovalRule(), side_effect="write")
    async def refund(ctx: Context) -> str:
        """Refund."""
        return ctx.actor.id

    return engine


def test_calls_without_await(engine, audit):
    """`invoke` and `attempt` return what the async ones return, with the same evidence."""
    with engine.blocking() as sync:
        assert sync.invoke("add", {"a": 1, "b": 2}) == 3
        outcome = sync.attempt("add", {"a": 1, "b": "two"})
        assert outcome.error.code == "INPUT_INVALID"
        with pytest.raises(CapabilityError):
            sync.invoke("missing")
    types = [event.type.removeprefix("capability.") for event in audit.events]
    assert types[:3] == ["requested", "started", "completed"]


def test_options_go_through(engine, audit):
    """Options go through: the token, the timeout, the correlation id."""
    token = CancelToken()
    token.cancel()
    with engine.blocking() as sync:
        outcome = sync.attempt("add", {"a": 1, "b": 2}, cancel=token, correlation_id="cor-1")
    assert outcome.error.code == "CANCELLED"
    assert audit.events[-1].correlation_id == "cor-1"


def test_synchronous_handlers_run_in_threads(engine):
    """A synchronous handler does not run in the thread of the loop nor of the caller."""
    with engine.blocking() as sync:
        assert sync.invoke("thread") != threading.current_thread().name


def test_approvals_without_await(engine):
    """Ask, approve and resume without await."""
    with engine.blocking() as sync:
        outcome = sync.attempt("refund", {}, actor=ALICE)
        (found,) = sync.approvals.find()
        assert found.id == outcome.approval.id
        sync.approvals.approve(found.id, by=BOB)
        assert sync.resume(found.id) == "usr_alice"
        assert sync.approvals.get(found.id).status == "consumed"


def test_discovery_and_authentication_without_await(engine):
    """`discover` and `authenticate` work too."""
    with engine.blocking() as sync:
        assert "add" in {found.id for found in sync.discover("direct", actor=ALICE)}
        assert sync.authenticate("card") == ALICE


def test_many_threads_may_call(engine):
    """Calls from several threads at once each get their own answer."""
    answers = {}

    with engine.blocking() as sync:

        def call(n):
            answers[n] = sync.invoke("add", {"a": n, "b": n})

        threads = [threading.Thread(target=call, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {n: 2 * n for n in range(20)}


def test_leaving_closes_the_engine(engine):
    """After the block the engine is closed, and no thread of the portal is left."""
    before = threading.active_count()
    with engine.blocking() as sync:
        sync.invoke("add", {"a": 1, "b": 2})
    with pytest.raises(RuntimeError):
        sync.invoke("add", {"a": 1, "b": 2})
    assert threading.active_count() <= before


async def test_refused_inside_an_event_loop(engine):
    """Inside a running event loop it is refused, with the way out named."""
    with pytest.raises(RuntimeError, match=r"await engine\.invoke"), engine.blocking():
        raise AssertionError("never entered")


async def test_refusal_leaves_the_engine_usable(engine):
    """The refusal does not close the engine."""
    with pytest.raises(RuntimeError), engine.blocking():
        pass
    assert await engine.invoke("add", {"a": 1, "b": 2}) == 3
