"""Two thousand calls at once, stopped at random: every one ends once and leaves nothing behind."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import anyio
import anyio.lowlevel
import pytest
from anyio.lowlevel import checkpoint

from capgate import CancelToken, Context, DomainError, Limits, Retry

CALLS = 2000
TERMINAL = {"denied", "completed", "failed", "cancelled"}


@pytest.fixture(params=["asyncio", "uvloop", "trio"])
def anyio_backend(request):
    """Threads live in real time, so the clocks here are real."""
    if request.param == "trio":
        return ("trio", {})
    return ("asyncio", {"use_uvloop": request.param == "uvloop"})


class Transient(DomainError):
    """Worth another try."""

    retryable = True


class Crowd:
    """Many calls of three kinds of handler, each with its own way of being stopped."""

    def __init__(self, rig, seed):
        self.rig = rig
        self.random = random.Random(seed)
        self.ends = Counter()
        fields = {"access": "public", "side_effect": "write", "idempotent": True}

        async def walk(ctx: Context, steps: int) -> str:
            """Take some steps, failing now and then."""
            for _ in range(steps):
                await checkpoint()
            if steps % 7 == 0 and ctx.attempt_number == 1:
                raise Transient
            return "done"

        async def nest(ctx: Context, steps: int) -> str:
            """Walk inside."""
            return await ctx.invoke("walk", {"steps": steps})

        def thread(steps: int) -> str:
            """Count in a thread."""
            return str(sum(range(steps * 100)))

        rig.engine.capability("walk", retry=Retry(attempts=2), **fields)(walk)
        rig.engine.capability("nest", **fields)(nest)
        rig.engine.capability("thread", **fields)(thread)

    async def one(self):
        steps = self.random.randrange(12)
        kind = self.random.choices(["walk", "nest", "thread"], [6, 3, 1])[0]
        stop = self.random.choice(["token", "scope", "timeout", "nothing"])
        token = CancelToken()
        limit = 0.001 if stop == "timeout" else 60
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                if stop in {"token", "scope"}:
                    fire = token.cancel if stop == "token" else scope.cancel
                    group.start_soon(self.stop_after, self.random.randrange(12), fire)
                outcome = await self.rig.engine.attempt(
                    kind, {"steps": steps}, cancel=token, timeout=limit
                )
                self.ends[outcome.status] += 1
        self.ends["native"] += scope.cancelled_caught
        assert token._listeners == {}

    @staticmethod
    async def stop_after(steps, fire):
        for _ in range(steps):
            await checkpoint()
        fire()


@pytest.mark.parametrize("seed", [1])
async def test_a_crowd_stopped_at_random_leaves_nothing(make_rig, seed):
    """2,000 calls at once, stopped at random: no task, thread, place or unpaired event is left."""
    rig = make_rig(limits=Limits(max_concurrency=200, max_queue=CALLS, max_threads=8))
    crowd = Crowd(rig, seed)
    async with anyio.create_task_group() as group:
        for _ in range(CALLS):
            group.start_soon(crowd.one)
    assert sum(crowd.ends.values()) >= CALLS
    assert len(crowd.ends) >= 3
    check_pairs(rig.audit.events)
    runtime = rig.engine._runtime
    with anyio.fail_after(10):
        while runtime.threads.used or runtime.places.used:
            await anyio.lowlevel.checkpoint()
    assert runtime.places.waiting == 0


def check_pairs(events):
    """Every execution has its `requested` first and exactly one terminal event, last."""
    by_execution = defaultdict(list)
    for event in events:
        by_execution[event.execution_id].append(event.type.removeprefix("capability."))
    assert len(by_execution) >= CALLS
    for types in by_execution.values():
        assert types[0] == "requested"
        assert [kind for kind in types if kind in TERMINAL] == types[-1:]
        assert types.count("requested") == 1
