"""Places and threads: a synchronous handler that nobody can interrupt."""

from __future__ import annotations

import threading

import anyio
import pytest

from capgate import DomainError, Limits, Retry


class Thread:
    """A synchronous handler that blocks its thread until the test lets go."""

    def __init__(self) -> None:
        self.entered, self.go, self.runs = threading.Event(), threading.Event(), 0

    def handler(self):
        def act() -> None:
            self.runs += 1
            self.entered.set()
            self.go.wait(5)

        return act

    async def is_entered(self):
        with anyio.fail_after(5):
            while not self.entered.is_set():
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("where", ["own", "engine"])
async def test_an_abandoned_thread_keeps_its_place(world, where):
    """It still runs: its place is free when it ends, not when its caller left."""
    thread = Thread()
    limits = Limits(max_concurrency=1 if where == "engine" else None, max_queue=0)
    built = world(limits=limits)
    built.add(handler=thread.handler(), max_concurrency=1 if where == "own" else None)
    outcome = await built.call(timeout=0.2)
    assert (outcome.error.code, thread.runs) == ("TIMEOUT", 1)
    assert built.last()["still_running"] is True
    assert (await built.call()).error.code == "RATE_LIMITED"
    thread.go.set()
    with anyio.fail_after(5):
        while (await built.call()).status != "completed":
            await anyio.lowlevel.checkpoint()


async def test_a_wait_for_a_thread_that_ends_gives_every_place_back(world):
    """A call that never got its thread holds no place of its capability either."""
    thread = Thread()
    built = world(limits=Limits(max_threads=1, max_concurrency=5))
    built.add("block", handler=thread.handler())
    built.add(handler=lambda_free, max_concurrency=1)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: built.call(id="block"))
        await thread.is_entered()
        assert (await built.call(timeout=0.01)).error.code == "TIMEOUT"
        thread.go.set()
    assert (await built.call(timeout=1)).status == "completed"


def lambda_free() -> None:
    """Do nothing."""


async def test_a_full_queue_for_threads_is_a_limit_like_any_other(world):
    """RATE_LIMITED, not a failure of the handler, which was never entered."""
    thread = Thread()
    built = world(limits=Limits(max_threads=1, max_queue=0))
    built.add("block", handler=thread.handler()).add(handler=lambda_free)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: built.call(id="block"))
        await thread.is_entered()
        outcome = await built.call()
        thread.go.set()
    assert (outcome.error.code, outcome.effect) == ("RATE_LIMITED", "none")


class Busy(DomainError):
    retryable = True


async def test_a_retried_synchronous_handler_keeps_its_place(world):
    """Every attempt of a call runs inside the limit, not only the first."""
    thread, tries = Thread(), []

    def act() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise Busy
        thread.handler()()

    built = world(limits=Limits(max_queue=0), jitter=lambda: 0.0)
    built.add(handler=act, max_concurrency=1, side_effect="read", retry=Retry(2, backoff=0.001))
    async with anyio.create_task_group() as group:
        group.start_soon(built.call)
        await thread.is_entered()
        outcome = await built.call()
        thread.go.set()
    assert getattr(getattr(outcome, "error", None), "code", None) == "RATE_LIMITED"
    assert len(tries) == 2


async def test_a_retry_does_not_run_beside_its_own_abandoned_thread(world):
    """The thread that was left behind still has the place: there is no second one."""
    inside, most, go = [], [], threading.Event()

    def act() -> None:
        inside.append(1)
        most.append(len(inside))
        go.wait(5)
        inside.pop()

    built = world(jitter=lambda: 0.0)
    built.add(
        handler=act,
        max_concurrency=1,
        side_effect="read",
        timeout=0.1,
        retry=Retry(2, backoff=0.001),
    )
    outcome = await built.call()
    go.set()
    assert outcome.error.code == "TIMEOUT"
    assert max(most) == 1


async def test_a_call_that_got_no_thread_is_not_tried_again(world):
    """Retries are for what a handler did; this one was never entered."""
    thread, pauses = Thread(), []
    built = world(limits=Limits(max_threads=1, max_queue=0), jitter=lambda: pauses.append(1) or 0)
    built.add("block", handler=thread.handler())
    built.add(handler=lambda_free, side_effect="read", retry=Retry(2, backoff=0.001))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: built.call(id="block"))
        await thread.is_entered()
        error = (await built.call()).error
        thread.go.set()
    assert (error.code, pauses) == ("RATE_LIMITED", [])
