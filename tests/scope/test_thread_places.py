"""Places of synchronous handlers: kept while a thread is left behind, given back in every case."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from capgate import DomainError, Limits, Retry


@pytest.fixture(params=["asyncio", "uvloop", "trio"])
def anyio_backend(request):
    """Threads live in real time, so the clocks here are real."""
    if request.param == "trio":
        return ("trio", {})
    return ("asyncio", {"use_uvloop": request.param == "uvloop"})


class Transient(DomainError):
    """Worth another try."""

    retryable = True


class Worker:
    """The body of a synchronous handler: it blocks until let go."""

    def __init__(self):
        self.started = threading.Event()
        self.go = threading.Event()

    def __call__(self):
        self.started.set()
        assert self.go.wait(10)
        return "done"


@pytest.fixture
def worker():
    """One worker; never left waiting."""
    worker = Worker()
    yield worker
    worker.go.set()


async def empty(*slots):
    """Wait until every place is free."""
    with anyio.fail_after(10):
        while any(each.used or each.waiting for each in slots):
            await anyio.lowlevel.checkpoint()


async def test_thread_left_behind_keeps_the_engine_s_place(make_rig, worker):
    """An abandoned thread keeps the engine's place: the next call waits for it."""
    rig = make_rig(limits=Limits(max_concurrency=1))
    rig.thread_job(worker, timeout=0.2)
    runtime = rig.engine._runtime
    assert (await rig.attempt()).error.code == "TIMEOUT"
    assert runtime.places.used == 1
    worker.go.set()
    await empty(runtime.places, runtime.threads)
    assert (await rig.attempt()).status == "completed"
    await empty(runtime.places, runtime.threads)


async def test_thread_left_behind_keeps_the_capability_s_place(rig, worker):
    """An abandoned thread keeps the capability's place: the next call waits, then times out."""
    rig.thread_job(worker, timeout=0.2, max_concurrency=1)
    assert (await rig.attempt()).error.code == "TIMEOUT"
    outcome = await rig.attempt(timeout=0.05)
    assert outcome.error.code == "TIMEOUT"
    assert outcome.effect == "none"
    assert rig.entered == 1
    worker.go.set()
    await empty(rig.engine._runtime.threads)
    assert (await rig.attempt()).status == "completed"


async def test_place_is_given_back_when_never_run(make_rig, worker):
    """A call stopped while queued for a thread gives its other places back."""
    rig = make_rig(limits=Limits(max_concurrency=2, max_threads=1))
    rig.thread_job(worker)
    runtime = rig.engine._runtime
    async with anyio.create_task_group() as group:
        group.start_soon(rig.attempt)
        await anyio.to_thread.run_sync(worker.started.wait, 10)
        await rig.attempt(timeout=0.05)
        assert runtime.places.used == 1
        worker.go.set()
    await empty(runtime.places, runtime.threads)
    assert rig.entered == 1


async def test_place_is_held_in_every_attempt(make_rig):
    """A retried synchronous handler holds its place in every attempt, and gives it back once."""
    rig = make_rig(limits=Limits(max_concurrency=1))
    held = []

    def body():
        held.append(rig.engine._runtime.places.used)
        if len(held) < 3:
            raise Transient
        return "done"

    rig.thread_job(body, idempotent=True, retry=Retry(attempts=3))
    assert (await rig.attempt()).status == "completed"
    assert held == [1, 1, 1]
    await empty(rig.engine._runtime.places, rig.engine._runtime.threads)


async def test_places_are_given_back_by_failures(make_rig):
    """A handler that fails, sync or not, gives its places back."""
    rig = make_rig(limits=Limits(max_concurrency=1))

    def body():
        raise ValueError("own")

    rig.thread_job(body, max_concurrency=1)
    for _ in range(3):
        assert (await rig.attempt()).error.code == "EXECUTION_FAILED"
    await empty(rig.engine._runtime.places, rig.engine._runtime.threads)


async def test_async_handler_interrupted_gives_its_place_back(make_rig):
    """An interrupted async handler gives its places back at its end."""
    rig = make_rig(limits=Limits(max_concurrency=1))
    rig.job(rig.forever, timeout=0.02, max_concurrency=1)
    for _ in range(3):
        assert (await rig.attempt()).error.code == "TIMEOUT"
    await empty(rig.engine._runtime.places)


async def test_full_queue_refuses(make_rig):
    """A full queue refuses at once: RATE_LIMITED, handler never entered."""
    rig = make_rig(limits=Limits(max_concurrency=1, max_queue=0))
    rig.job(rig.forever, timeout=0.05)
    async with anyio.create_task_group() as group:
        group.start_soon(rig.attempt)
        await rig.running.wait()
        outcome = await rig.attempt()
        assert (outcome.error.code, outcome.error.stage) == ("RATE_LIMITED", "policy")
    assert rig.trail == ["requested", "started", "requested", "denied", "cancelled"]
    assert rig.entered == 1
