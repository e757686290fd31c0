"""The truth table's row about synchronous handlers: left behind at once, placed until they end."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from capgate import CancelToken, Limits

TIMED_OUT = ("Cancelled", "TIMEOUT", "timeout", True)
CANCELLED = ("Cancelled", "CANCELLED", "cancellation", False)
ENDED = ("requested", "started", "cancelled")
LEFT = {"effect": "unknown", "still_running": True}


@pytest.fixture(params=["asyncio", "uvloop", "trio"])
def anyio_backend(request):
    """Threads live in real time, so the clocks here are real."""
    if request.param == "trio":
        return ("trio", {})
    return ("asyncio", {"use_uvloop": request.param == "uvloop"})


class Worker:
    """The body of a synchronous handler: it blocks until let go."""

    def __init__(self):
        self.started = threading.Event()
        self.go = threading.Event()
        self.runs = 0

    def __call__(self):
        self.runs += 1
        self.started.set()
        assert self.go.wait(10)
        return "done"


@pytest.fixture
def worker():
    """One worker; never left waiting."""
    worker = Worker()
    yield worker
    worker.go.set()


async def ended(rig, places=None):
    """Wait until no thread of the engine's is taken."""
    threads = rig.engine._runtime.threads
    with anyio.fail_after(10):
        while threads.used or (places is not None and places.used):
            await anyio.lowlevel.checkpoint()


async def started(worker):
    await anyio.to_thread.run_sync(worker.started.wait, 10)


async def test_value_of_a_thread_is_the_output(rig, worker):
    """A synchronous handler runs in a thread of its own and returns its value."""
    worker.go.set()
    rig.thread_job(worker)
    assert rig.told(await rig.attempt()) == ("Completed", "done", False, "done")
    rig.saw("requested", "started", "completed", late=False)


async def test_failure_of_a_thread_is_a_failure(rig):
    """What a synchronous handler raises is the handler's failure."""

    def body():
        raise ValueError("own")

    rig.thread_job(body)
    told = rig.told(await rig.attempt())
    assert told == ("Failed", "EXECUTION_FAILED", "execution", False, "unknown")
    rig.saw("requested", "started", "failed", code="EXECUTION_FAILED", effect="unknown")


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_exit_in_a_thread_goes_on(rig, kind):
    """An exit raised by a synchronous handler is told as failed and re-raised."""

    def body():
        raise kind("now")

    rig.thread_job(body)
    with pytest.raises(kind):
        await rig.attempt()
    rig.saw("requested", "started", "failed", code="INTERNAL_ERROR", effect="unknown")


@pytest.mark.parametrize("kind", ["attempt", "call"])
async def test_thread_overtaken_by_its_deadline(rig, worker, kind):
    """The deadline overtakes the thread: TIMEOUT at once, the thread keeps its place."""
    limit = {"timeout": 0.2}
    rig.thread_job(worker, **(limit if kind == "attempt" else {}))
    outcome = await rig.attempt(**(limit if kind == "call" else {}))
    assert rig.told(outcome) == (*TIMED_OUT, "unknown")
    rig.saw(*ENDED, code="TIMEOUT", native=False, **LEFT)
    assert rig.engine._runtime.threads.used == 1
    worker.go.set()
    await ended(rig)


async def test_thread_overtaken_by_the_token(rig, worker):
    """The token overtakes the thread: CANCELLED at once, the thread keeps its place."""
    token = CancelToken()
    rig.thread_job(worker)
    async with anyio.create_task_group() as group:
        group.start_soon(fire_when_started, worker, token)
        outcome = await rig.attempt(cancel=token)
    assert rig.told(outcome) == (*CANCELLED, "unknown")
    rig.saw(*ENDED, code="CANCELLED", native=False, **LEFT)
    assert rig.engine._runtime.threads.used == 1
    worker.go.set()
    await ended(rig)


async def fire_when_started(worker, token):
    await started(worker)
    token.cancel()


async def test_thread_fires_the_token_itself(rig, worker):
    """A handler that fires the token from its thread is overtaken while it still runs."""
    token = CancelToken()

    def body():
        token.cancel_from_thread()
        return worker()

    rig.thread_job(body)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "unknown")
    rig.saw(*ENDED, code="CANCELLED", native=False, **LEFT)
    worker.go.set()
    await ended(rig)


async def test_token_from_a_thread_interrupts_an_async_handler(rig):
    """`cancel_from_thread` interrupts an async handler as soon as the call's loop sees it."""
    token = CancelToken()

    async def body(ctx):
        await anyio.to_thread.run_sync(token.cancel_from_thread)
        await anyio.sleep_forever()

    rig.job(body)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "unknown")
    rig.saw(*ENDED, code="CANCELLED", native=False, still_running=False)


async def test_plain_cancel_from_a_thread_interrupts_an_async_handler(rig):
    """Even `cancel` called from the wrong thread is taken up by the call's loop."""
    token = CancelToken()

    async def body(ctx):
        await anyio.to_thread.run_sync(token.cancel)
        await anyio.sleep_forever()

    rig.job(body)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "unknown")
    rig.saw(*ENDED, code="CANCELLED", native=False, still_running=False)


async def test_thread_overtaken_by_a_native_cancellation(rig, worker):
    """A native cancellation overtakes the thread: it goes on at once, the place is kept."""
    rig.thread_job(worker)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_when_started, worker, scope)
            await rig.attempt()
    assert scope.cancelled_caught
    rig.saw(*ENDED, code="CANCELLED", native=True, **LEFT)
    assert rig.engine._runtime.threads.used == 1
    worker.go.set()
    await ended(rig)


async def cancel_when_started(worker, scope):
    with anyio.CancelScope(shield=True):
        await started(worker)
    scope.cancel()


async def test_thread_queued_for_a_place_never_runs(make_rig, worker):
    """Still queued for a thread when the deadline fires: effect none, the thread never runs it."""
    rig = make_rig(limits=Limits(max_threads=1))
    rig.thread_job(worker)
    async with anyio.create_task_group() as group:
        group.start_soon(rig.attempt)
        await started(worker)
        outcome = await rig.attempt(timeout=1)
        assert rig.told(outcome) == (*TIMED_OUT, "none")
        assert rig.audit.events[-1].data["still_running"] is False
        worker.go.set()
    await ended(rig)
    assert (rig.entered, worker.runs) == (1, 1)
    assert sorted(rig.trail) == sorted([*ENDED, "requested", "started", "completed"])


@pytest.mark.parametrize("why", ["token", "native"])
async def test_thread_queued_and_stopped_otherwise_never_runs(make_rig, worker, why):
    """Queued for a thread and stopped by the token or natively: the thread never runs it."""
    rig = make_rig(limits=Limits(max_threads=1))
    rig.thread_job(worker)
    token = CancelToken()
    async with anyio.create_task_group() as group:
        group.start_soon(rig.attempt)
        await started(worker)
        with anyio.CancelScope() as scope:
            group.start_soon(
                stop_when_queued, rig, token.cancel if why == "token" else scope.cancel
            )
            assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "none")
        assert scope.cancelled_caught == (why == "native")
        worker.go.set()
    await ended(rig)
    assert (rig.entered, worker.runs) == (1, 1)
    data = [e.data for e in rig.audit.events if e.type == "capability.cancelled"]
    assert [(d["effect"], d["still_running"]) for d in data] == [("none", False)]


async def stop_when_queued(rig, stop):
    with anyio.CancelScope(shield=True):
        while not rig.engine._runtime.threads.waiting:
            await anyio.lowlevel.checkpoint()
    stop()
