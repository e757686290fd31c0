"""A store of keys that fails, races and restarts."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    AuditConfig,
    CancelToken,
    Context,
    DomainError,
    Limits,
    Pipeline,
    Retry,
    Stage,
    public_error,
)
from capgate.idempotency import MemoryIdempotency

DANA = Actor("u_dana")


class Failing:
    """Keys in memory whose named operations fail."""

    def __init__(self) -> None:
        self.memory, self.fails, self.hangs, self.lies = MemoryIdempotency(), set(), set(), {}

    def __getattr__(self, name):
        real = getattr(self.memory, name)

        async def operation(*args, **named):
            if name in self.fails:
                raise ConnectionError("canary")
            if name in self.hangs:
                await anyio.sleep_forever()
            return self.lies[name] if name in self.lies else await real(*args, **named)

        return operation


@pytest.fixture
def keys():
    return Failing()


@pytest.fixture
def built(world, keys):
    return world(idempotency=keys, limits=Limits(policy_timeout=0.2)).add()


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_without_an_answer_nothing_runs(built, keys, how):
    """SI-7: a lost claim could be somebody's second execution."""
    getattr(keys, how).add("begin")
    error = (await built.call(idempotency_key="k")).error
    assert (error.code, error.stage, error.exposed) == ("INTERNAL_ERROR", "policy", False)
    assert "canary" not in str(public_error(error))
    assert built.ran == []


@pytest.mark.parametrize("answer", [None, True, "claimed", object()])
async def test_an_answer_that_is_none_runs_nothing(built, keys, answer):
    """SI-7: only `Claimed` lets a call go on."""
    keys.lies["begin"] = answer
    outcome = await built.call(idempotency_key="k")
    assert outcome.status == "failed"
    assert built.ran == []


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_an_outcome_that_could_not_be_kept_stands(built, keys, how):
    """The handler has run and its result is known: it is not thrown away."""
    getattr(keys, how).add("complete")
    assert (await built.call(idempotency_key="k")).output == 1
    getattr(keys, how).clear()
    assert (await built.call(idempotency_key="k")).error.code == "IDEMPOTENCY_CONFLICT"
    assert built.ran == [1]


async def test_a_call_without_a_key_needs_no_store(built, keys):
    """An outage of the keys is none of its business."""
    keys.fails.update({"begin", "complete", "release", "suspend"})
    assert (await built.call()).output == 1


async def test_of_many_racing_callers_one_runs(built):
    """The others are told to come back, or get the stored outcome."""
    outcomes = []

    async def race():
        outcomes.append(await built.call(idempotency_key="k"))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(race)
    assert built.ran == [1]
    assert {each.status for each in outcomes} <= {"completed", "failed"}
    assert {each.error.code for each in outcomes if each.status == "failed"} <= {
        "IDEMPOTENCY_CONFLICT"
    }


async def test_a_process_that_died_keeps_its_key_in_flight(world, keys):
    """After a restart nobody runs what may have happened; it is told as still running."""
    started = anyio.Event()

    async def act() -> None:
        started.set()
        await anyio.sleep_forever()

    keys.fails.add("complete")
    keys.fails.add("release")
    first = world(idempotency=keys).add(handler=act)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.call(idempotency_key="k"))
        await started.wait()
        group.cancel_scope.cancel()
    keys.fails.clear()
    second = world(idempotency=keys).add(handler=act)
    error = (await second.call(idempotency_key="k")).error
    assert (error.code, error.retryable) == ("IDEMPOTENCY_CONFLICT", True)


async def test_a_native_cancellation_settles_the_key(world):
    """Shielded: the key is kept or freed although the caller is gone."""
    started = anyio.Event()
    built = world()

    async def act() -> None:
        built.ran.append(1)
        started.set()
        await anyio.sleep_forever()

    built.add(handler=act)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: built.call(idempotency_key="k"))
        await started.wait()
        group.cancel_scope.cancel()
    outcome = await built.call(idempotency_key="k")
    assert (outcome.status, outcome.effect) == ("cancelled", "unknown")
    assert built.ran == [1]


async def test_retries_of_one_call_share_its_key(world):
    """Stable across attempts (reference A 163)."""
    seen = []

    class Busy(DomainError):
        retryable = True

    async def act(ctx: Context) -> None:
        seen.append((ctx.idempotency_key, ctx.attempt_number))
        if len(seen) < 3:
            raise Busy

    built = world(jitter=lambda: 0.0)
    built.add(handler=act, retry=Retry(3, backoff=0.001), idempotent=True)
    await built.call(idempotency_key="k")
    assert seen == [("k", 1), ("k", 2), ("k", 3)]


async def test_a_huge_integer_is_an_input_like_any_other(world):
    """Exact digits are hashed and replayed."""
    built = world().add()
    huge = 10**400
    assert (await built.call({"n": huge}, idempotency_key="k")).output == huge
    again = await built.call({"n": huge}, idempotency_key="k")
    assert (again.output, again.replayed) == (huge, True)
    assert (await built.call({"n": huge + 1}, idempotency_key="k")).error.retryable is False


@pytest.mark.parametrize("how", ["lost-answer", "token"])
async def test_a_claim_that_nobody_heard_of_is_given_back(world, how):
    """The store claimed the key, the call never went on: nothing ran, so a repeat runs (row 7)."""
    token = CancelToken()

    class Slow(MemoryIdempotency):
        __slots__ = ("once",)

        async def begin(self, *args, **named):
            answer = await super().begin(*args, **named)
            if not hasattr(self, "once"):
                self.once = True
                if how == "lost-answer":
                    raise ConnectionError
                token.cancel()
                await anyio.lowlevel.checkpoint()
            return answer

    built = world(idempotency=Slow()).add()
    first = await built.call(idempotency_key="k", cancel=token)
    assert (first.status in {"failed", "cancelled"}, first.effect) == (True, "none")
    again = await built.call(idempotency_key="k")
    assert (again.status, built.ran) == ("completed", [1])


class Custom(Stage):
    name = "custom"

    def __init__(self, wrong) -> None:
        self.wrong = wrong

    def run(self, invocation):
        if "custom" in self.wrong:
            raise RuntimeError


def failing_sink(wrong):
    async def sink(event):
        if event.type == "capability.started" and "audit" in wrong:
            raise ConnectionError

    return sink


@pytest.mark.parametrize("where", ["limit", "audit", "custom"])
async def test_whatever_refuses_after_the_claim_frees_the_key(world, where):
    """Row 7: effect none, whichever gate it was."""
    wrong, go, started = {where}, anyio.Event(), anyio.Event()

    async def hold() -> None:
        started.set()
        await go.wait()

    built = world(
        audit=AuditConfig([failing_sink(wrong)], strict=True),
        limits=Limits(max_concurrency=1, max_queue=0),
        pipeline=Pipeline.default().after("policy", Custom(wrong)),
    )
    built.add().add("hold", handler=hold)
    async with anyio.create_task_group() as group:
        if where == "limit":
            group.start_soon(lambda: built.call(id="hold"))
            await started.wait()
        first = await built.call(idempotency_key="k")
        go.set()
    wrong.clear()
    again = await built.call(idempotency_key="k")
    assert (first.status, first.effect) == ("failed", "none")
    assert (again.status, again.replayed, built.ran) == ("completed", False, [1])
