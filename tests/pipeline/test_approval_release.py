"""What fails between the spending of an approval and the handler gives the approval back."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import pytest

from capgate import Actor, ApprovalRule, AuditConfig, CancelToken, Limits
from capgate.audit import MemoryAudit

DANA, MIA = Actor("u_dana"), Actor("u_mia")


class Sink:
    """A sink that fails, hangs or acts when the handler is about to start."""

    def __init__(self) -> None:
        self.memory, self.on_start = MemoryAudit(), None

    async def __call__(self, event):
        if event.type == "capability.started" and self.on_start is not None:
            await self.on_start()
        self.memory(event)


async def fail():
    raise ConnectionError("canary")


@pytest.fixture
def sink():
    return Sink()


@pytest.fixture
def strict(world, store, sink):
    """An engine whose started events must be written, over the fragile store."""
    built = world(
        approvals=store,
        audit=AuditConfig([sink], strict=True),
        limits=Limits(audit_timeout=0.2, policy_timeout=0.5),
    )
    return built.add(approval=ApprovalRule())


@pytest.mark.parametrize("down", [fail, anyio.sleep_forever], ids=["raises", "hangs"])
async def test_a_strict_audit_that_is_down_gives_the_approval_back(strict, sink, down):
    """Reference A 125: AUDIT_UNAVAILABLE said retryable, and the retry said consumed."""
    record = await strict.granted()
    sink.on_start = down
    error = (await strict.resume(record)).error
    assert (error.code, error.retryable, error.effect) == ("AUDIT_UNAVAILABLE", True, "none")
    assert await strict.status(record) == "approved"
    sink.on_start = None
    assert (await strict.resume(record)).output == 1
    assert strict.ran == [1]


async def test_what_cannot_be_given_back_is_not_retryable(strict, sink, store):
    """It stays consumed, and the error says so; its cause is kept."""
    record = await strict.granted()
    sink.on_start = fail
    store.fails.add("release")
    error = (await strict.resume(record)).error
    assert (error.code, error.retryable) == ("AUDIT_UNAVAILABLE", False)
    assert error.__cause__ is not None
    sink.on_start = None
    assert (await strict.resume(record)).error.code == "APPROVAL_CONSUMED"
    assert strict.ran == []


async def test_only_this_execution_gives_it_back(strict, sink, store):
    """The release is a compare-and-set on the execution id."""
    record = await strict.granted()
    sink.on_start = fail
    await strict.resume(record)
    assert store.calls.count("consume") == store.calls.count("release") == 1


async def test_a_token_that_fires_at_the_start_gives_it_back(strict, sink):
    """CANCELLED, nothing has run, and the owner may try again (reference A 125)."""
    token = CancelToken()
    record = await strict.granted()

    async def fire():
        token.cancel()

    sink.on_start = fire
    outcome = await strict.resume(record, cancel=token)
    assert (outcome.error.code, outcome.effect) == ("CANCELLED", "none")
    assert strict.ran == []
    assert await strict.status(record) == "approved"


async def test_a_token_that_fires_while_it_is_spent_gives_it_back(strict, store):
    """The store's answer is awaited, then undone."""
    token = CancelToken()
    record = await strict.granted()

    async def fire():
        token.cancel()

    store.before["consume"] = fire
    outcome = await strict.resume(record, cancel=token)
    assert (outcome.error.code, strict.ran) == ("CANCELLED", [])
    assert await strict.status(record) == "approved"


async def test_a_fired_token_spends_nothing(strict, store):
    """Before consumption, a stop costs nothing (reference A 125)."""
    token = CancelToken()
    token.cancel()
    record = await strict.granted()
    outcome = await strict.resume(record, cancel=token)
    assert outcome.error.code == "CANCELLED"
    assert "consume" not in store.calls


async def test_a_deadline_at_the_start_gives_it_back(strict, sink):
    """TIMEOUT before the first line: nothing has run, nothing is spent."""
    record = await strict.granted()

    async def wait():
        await anyio.sleep(0.03)

    sink.on_start = wait
    outcome = await strict.resume(record, timeout=0.01)
    assert (outcome.error.code, outcome.effect) == ("TIMEOUT", "none")
    assert await strict.status(record) == "approved"


@pytest.mark.parametrize("where", ["consume", "started"])
async def test_a_native_cancellation_gives_it_back(strict, sink, store, where):
    """The caller's own cancellation goes on, and the approval is free again."""
    record = await strict.granted()

    async def cancel():
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    with anyio.CancelScope() as scope:
        if where == "consume":
            store.before["consume"] = cancel
        else:
            sink.on_start = cancel
        await strict.resume(record)
    assert scope.cancelled_caught
    store.before.clear()
    sink.on_start = None
    assert await strict.status(record) == "approved"
    assert strict.ran == []
    assert (await strict.resume(record)).output == 1


async def test_a_handler_that_was_entered_keeps_it_spent(world, store):
    """From its first line on the yes is used up, however it is stopped."""
    token = CancelToken()

    async def act() -> None:
        token.cancel()
        await anyio.sleep_forever()

    built = world(approvals=store).add(handler=act, approval=ApprovalRule())
    record = await built.granted()
    outcome = await built.resume(record, cancel=token)
    assert (outcome.error.code, outcome.effect) == ("CANCELLED", "unknown")
    assert await built.status(record) == "consumed"
    assert "release" not in store.calls


async def test_a_queued_thread_that_never_started_gives_it_back(world, store):
    """A synchronous handler that did not get its thread in time has not run."""
    entered, go, ran = threading.Event(), threading.Event(), []

    def block() -> None:
        entered.set()
        go.wait(5)

    def act() -> None:
        ran.append(1)

    built = world(approvals=store, limits=Limits(max_threads=1))
    built.add("block", handler=block).add(handler=act, approval=ApprovalRule())
    record = await built.granted()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: built.call(id="block"))
        with anyio.fail_after(5):
            while not entered.is_set():
                await anyio.lowlevel.checkpoint()
        outcome = await built.resume(record, timeout=0.02)
        go.set()
    assert (outcome.error.code, outcome.effect, ran) == ("TIMEOUT", "none", [])
    assert await built.status(record) == "approved"


async def test_a_record_consumed_by_a_process_that_died_stays_so(world, store):
    """Nothing re-runs silently: the record shows by which execution it was consumed."""
    built = world(approvals=store).add(approval=ApprovalRule())
    record = await built.granted()
    await store.memory.consume(record.id, "exe_dead", built.clock.now())
    assert (await built.resume(record)).error.code == "APPROVAL_CONSUMED"
    assert (await built.engine.approvals.get(record.id)).consumed_by == "exe_dead"
    assert built.ran == []
