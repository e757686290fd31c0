"""The one watchdog behind all deadlines: exact, in order, and shared by nobody it must not be."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import anyio
import anyio.lowlevel
import pytest

from capgate import CancelToken, Context, Engine, Limits
from capgate.audit import MemoryAudit
from capgate.call import current_watch, in_event_loop

VIRTUAL = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)


@VIRTUAL
async def test_every_deadline_fires_at_its_instant(rig):
    """Calls with many different timeouts each end exactly at their own, whatever the order."""
    rig.job(rig.forever)
    limits = [n / 100 for n in range(1, 101)]
    random.Random(1).shuffle(limits)
    begun = anyio.current_time()
    took = {}

    async def call(limit):
        await rig.attempt(timeout=limit)
        took[limit] = anyio.current_time() - begun

    async with anyio.create_task_group() as group:
        for limit in limits:
            group.start_soon(call, limit)
    assert list(took) == sorted(limits)
    assert list(took.values()) == pytest.approx(sorted(limits))


@VIRTUAL
async def test_a_later_call_may_be_due_earlier(rig):
    """A call that begins later with a shorter timeout ends first."""
    rig.job(rig.forever)
    ended = []

    async def call(name, limit):
        await rig.attempt(timeout=limit)
        ended.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(call, "long", 100)
        await rig.running.wait()
        group.start_soon(call, "short", 1)
    assert ended == ["short", "long"]


@VIRTUAL
async def test_the_shorter_of_both_deadlines_counts(rig):
    """Of the attempt's and the call's deadline the shorter ends the call."""
    rig.job(rig.forever, timeout=3)
    begun = anyio.current_time()
    await rig.attempt(timeout=5)
    await rig.attempt(timeout=2)
    assert anyio.current_time() - begun == pytest.approx(5)


@VIRTUAL
async def test_the_context_tells_the_deadline(rig):
    """`ctx.deadline` is the instant of the shorter of both deadlines."""
    seen = []

    async def body(ctx):
        seen.append(ctx.deadline - anyio.current_time())
        return "done"

    rig.job(body, timeout=3)
    await rig.attempt()
    await rig.attempt(timeout=2)
    await rig.attempt(timeout=5)
    assert seen == pytest.approx([3, 2, 3])


async def test_one_watch_per_loop():
    """Asked again in the same loop, the same watch answers."""
    assert current_watch() is current_watch()
    assert in_event_loop()


def test_no_watch_outside_of_a_loop():
    """Outside of an event loop there is none."""
    assert not in_event_loop()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_loops_one_after_the_other(backend):
    """Loops that run one after the other in one thread each have their own watch."""
    engine = Engine("e", limits=Limits(timeout=0.01))

    @engine.capability("wait", access="public")
    async def wait() -> None:
        """Wait."""
        await anyio.sleep_forever()

    async def call():
        outcome = await engine.attempt("wait")
        return outcome.error.code, current_watch()

    answers = [anyio.run(call, backend=backend) for _ in range(3)]
    assert [code for code, _ in answers] == ["TIMEOUT"] * 3
    assert len({id(watch) for _, watch in answers}) == 3


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_watch_outlives_its_loop_harmlessly(backend):
    """Posting to a loop that has ended is ignored."""

    async def own():
        return current_watch()

    watch = anyio.run(own, backend=backend)
    watch.post(lambda: None)


@pytest.mark.parametrize("second", ["asyncio", "trio"])
def test_one_token_stops_calls_of_two_loops(second):
    """One token stops calls in two loops at once, fired from either."""
    audit, token = MemoryAudit(), CancelToken()
    engine = Engine("e", audit=audit)
    running = threading.Barrier(3)
    codes = []

    @engine.capability("wait", access="public")
    async def wait(ctx: Context) -> None:
        """Wait."""
        await anyio.to_thread.run_sync(running.wait)
        await anyio.sleep_forever()

    async def call():
        codes.append((await engine.attempt("wait", cancel=token)).error.code)

    with ThreadPoolExecutor(2) as loops:
        for backend in ("asyncio", second):
            loops.submit(anyio.run, call, backend=backend)
        running.wait(10)
        token.cancel_from_thread()
    assert codes == ["CANCELLED", "CANCELLED"]


@pytest.mark.parametrize("anyio_backend", ["trio"], indirect=True)
async def test_an_idle_watch_holds_no_task(rig):
    """Once every deadline it saw has passed, the watch of a trio run holds no task."""
    rig.job(rig.done, timeout=0.02)
    await rig.attempt()
    await anyio.sleep(0.05)
    await anyio.wait_all_tasks_blocked()
    assert not any("TrioWatch" in task.name for task in anyio.get_running_tasks())
