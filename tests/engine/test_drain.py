"""Closing an engine: new calls are refused, calls under way end or are stopped, doubts listed."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from capgate import CancelToken, Context, DomainError, Engine, Limits, Pipeline, Retry, Stage
from capgate.audit import MemoryAudit
from capgate.engine import DrainReport

GRACE = 0.02


class Shop:
    """An engine with one write capability, and the calls made of it."""

    def __init__(self, **settings):
        self.audit = MemoryAudit()
        limits = settings.pop("limits", Limits(cleanup_grace=0.05))
        self.engine = Engine("shop", limits=limits, **{"audit": self.audit, **settings})
        self.running = anyio.Event()
        self.outcomes = []

    def sells(self, body, **fields):
        async def job(ctx: Context) -> str:
            """Do it."""
            self.running.set()
            return await body(ctx)

        options = {"access": "public", "side_effect": "write", **fields}
        self.engine.capability("job", **options)(job)

    async def call(self, **options):
        self.outcomes.append(await self.engine.attempt("job", {}, **options))

    def ids(self, kind="requested"):
        return tuple(each.execution_id for each in self.audit.of_type(f"capability.{kind}"))


async def forever(ctx):
    await anyio.sleep_forever()


async def done(ctx):
    return "done"


async def test_closed_engine_refuses_new_calls():
    """A closed engine takes no new call, and leaves no evidence of one."""
    shop = Shop()
    shop.sells(done)
    assert await shop.engine.aclose() == DrainReport()
    with pytest.raises(RuntimeError, match="closed"):
        await shop.engine.attempt("job", {})
    with pytest.raises(RuntimeError, match="closed"):
        await shop.engine.invoke("job", {})
    assert shop.audit.events == []


async def test_closing_twice_is_harmless():
    """A second close finds nothing to do."""
    shop = Shop()
    shop.sells(done)
    await shop.engine.aclose()
    assert await shop.engine.aclose() == DrainReport()


async def test_calls_are_waited_for():
    """A call that ends within the grace completes and is listed so."""
    shop = Shop()
    go = anyio.Event()

    async def body(ctx):
        await go.wait()
        return "done"

    shop.sells(body)
    async with anyio.create_task_group() as group:
        group.start_soon(shop.call)
        await shop.running.wait()
        group.start_soon(let_go_when_closing, shop, go)
        report = await shop.engine.aclose(grace=10)
    assert report == DrainReport(completed=shop.ids())
    assert shop.outcomes[0].status == "completed"


async def let_go_when_closing(shop, go):
    while not shop.engine._live.closing:
        await anyio.lowlevel.checkpoint()
    go.set()


async def test_calls_are_cancelled_after_the_grace():
    """A call that outlasts the grace is interrupted: CANCELLED, its effect unknown."""
    shop = Shop()
    shop.sells(forever)
    async with anyio.create_task_group() as group:
        group.start_soon(shop.call)
        await shop.running.wait()
        report = await shop.engine.aclose(grace=GRACE)
    assert report == DrainReport(unknown=shop.ids())
    (outcome,) = shop.outcomes
    assert (outcome.error.code, outcome.effect) == ("CANCELLED", "unknown")
    assert shop.ids("cancelled") == shop.ids()
    assert shop.audit.events[-1].data["native"] is False


async def test_a_read_that_is_cancelled_is_no_doubt():
    """An interrupted call without effect is cancelled, not unknown."""
    shop = Shop()
    shop.sells(forever, side_effect="read")
    async with anyio.create_task_group() as group:
        group.start_soon(shop.call)
        await shop.running.wait()
        report = await shop.engine.aclose(grace=GRACE)
    assert report == DrainReport(cancelled=shop.ids())


@pytest.mark.parametrize("held", [False, True])
async def test_calls_with_a_token_or_timeout_are_cancelled_too(held):
    """Calls with a token or a timeout of their own end as CANCELLED all the same."""
    shop = Shop()
    shop.sells(forever)

    async def call():
        await shop.call(**({"cancel": CancelToken()} if held else {"timeout": 60}))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await shop.running.wait()
        report = await shop.engine.aclose(grace=GRACE)
    assert report == DrainReport(unknown=shop.ids())
    assert shop.outcomes[0].error.code == "CANCELLED"


async def test_a_call_in_a_stage_never_reaches_its_handler():
    """A call that waits in a stage is stopped there: effect none, handler never entered."""
    waiting = anyio.Event()

    class Pause(Stage):
        name = "pause"

        async def run(self, invocation):
            waiting.set()
            await anyio.sleep_forever()

    shop = Shop(pipeline=Pipeline.default().before("execution", Pause()))
    shop.sells(done)
    async with anyio.create_task_group() as group:
        group.start_soon(shop.call)
        await waiting.wait()
        report = await shop.engine.aclose(grace=GRACE)
        group.cancel_scope.cancel()
    assert report == DrainReport(cancelled=shop.ids())
    assert [(each.error.code, each.effect) for each in shop.outcomes] == [("CANCELLED", "none")]


async def test_a_call_in_back_off_is_stopped():
    """A call in back-off is stopped at once: not entered again."""

    class Transient(DomainError):
        retryable = True

    async def body(ctx):
        raise Transient

    shop = Shop(jitter=lambda: 1.0)
    shop.sells(body, idempotent=True, retry=Retry(attempts=2, backoff=60, max_backoff=60))
    async with anyio.create_task_group() as group:
        group.start_soon(shop.call)
        await shop.running.wait()
        report = await shop.engine.aclose(grace=GRACE)
        group.cancel_scope.cancel()
    assert report == DrainReport(unknown=shop.ids())
    assert [each.error.code for each in shop.outcomes] == ["CANCELLED"]


async def test_a_call_queued_for_a_place_is_stopped():
    """A call that waits for a place is stopped: effect none, handler never entered."""
    shop = Shop()
    shop.sells(forever, max_concurrency=1)
    async with anyio.create_task_group() as group:
        group.start_soon(shop.call)
        await shop.running.wait()
        group.start_soon(shop.call)
        await anyio.wait_all_tasks_blocked()
        report = await shop.engine.aclose(grace=GRACE)
        group.cancel_scope.cancel()
    first, second = shop.ids()
    assert report == DrainReport(cancelled=(second,), unknown=(first,))
    assert len(shop.ids("started")) == 1


async def test_a_thread_left_behind_is_listed_as_unknown():
    """A synchronous handler that outlasts the grace is left behind and listed as unknown."""
    shop = Shop()
    started, go = threading.Event(), threading.Event()

    @shop.engine.capability("job", access="public", side_effect="write")
    def job() -> str:
        """Do it in a thread."""
        started.set()
        assert go.wait(10)
        return "done"

    async with anyio.create_task_group() as group:
        group.start_soon(shop.call)
        await anyio.to_thread.run_sync(started.wait, 10)
        report = await shop.engine.aclose(grace=GRACE)
    assert report == DrainReport(unknown=shop.ids())
    assert shop.audit.events[-1].data["still_running"] is True
    go.set()
    with anyio.fail_after(10):
        while shop.engine._runtime.threads.used:
            await anyio.lowlevel.checkpoint()


async def test_inner_calls_of_running_ones_still_go_on():
    """While the engine closes, a handler under way may still call on."""
    shop = Shop()
    closing = anyio.Event()

    @shop.engine.capability("inner", access="public")
    async def inner() -> str:
        """Answer."""
        return "inner"

    async def body(ctx):
        await closing.wait()
        return await ctx.invoke("inner")

    shop.sells(body)
    async with anyio.create_task_group() as group:
        group.start_soon(shop.call)
        await shop.running.wait()
        group.start_soon(let_go_when_closing, shop, closing)
        report = await shop.engine.aclose(grace=10)
    assert shop.outcomes[0].output == "inner"
    assert shop.outcomes[0].execution_id in report.completed


async def test_leaving_the_block_drains():
    """`async with engine` waits for calls under way and refuses new ones afterwards."""
    shop = Shop()
    shop.sells(done)
    async with shop.engine as engine:
        await engine.invoke("job", {})
    with pytest.raises(RuntimeError, match="closed"):
        await shop.engine.invoke("job", {})
    assert len(shop.ids("completed")) == 1


async def test_leaving_by_an_error_stops_calls_at_once():
    """Leaving the block by an error stops calls at once, and the error goes on as it was."""
    shop = Shop()
    shop.sells(forever)
    broken = LookupError("own")

    async def leave(group):
        async with shop.engine:
            group.start_soon(shop.call)
            await shop.running.wait()
            raise broken

    async with anyio.create_task_group() as group:
        with pytest.raises(LookupError, match="own"):
            await leave(group)
    assert shop.outcomes[0].error.code == "CANCELLED"


async def test_async_sinks_are_drained():
    """Events still queued for an async sink when the engine closes are delivered first."""
    taken = []

    async def sink(event):
        await anyio.lowlevel.checkpoint()
        taken.append(event.type.removeprefix("capability."))

    shop = Shop(audit=[sink])
    shop.sells(done)
    async with shop.engine as engine:
        for _ in range(20):
            await engine.invoke("job", {})
    assert taken == ["requested", "started", "completed"] * 20


async def test_entering_twice_is_refused():
    """An engine is entered once."""
    shop = Shop()
    async with shop.engine:
        with pytest.raises(RuntimeError, match="entered"):
            await shop.engine.__aenter__()
