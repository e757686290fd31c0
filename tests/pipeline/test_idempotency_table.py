"""The table of repeats, row by row, and what a key is scoped by."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    CancelToken,
    Completed,
    Context,
    DomainError,
    Effect,
    Failed,
    allow,
    deny,
    policy,
    public_error,
)
from capgate.idempotency import MemoryIdempotency

DANA, EVE = Actor("u_dana"), Actor("u_eve")
DAY = 24 * 3600


class Untouched(DomainError):
    message = "Nothing was done."
    effect = Effect.NONE


class Unsure(DomainError):
    message = "Who knows."


@pytest.fixture
def keep():
    """One store of keys, which outlives an engine."""
    return MemoryIdempotency()


def failing(raised, built):
    async def act(n: int = 1) -> int:
        built.ran.append(n)
        raise raised

    return act


async def test_row_1_while_the_first_still_runs(world):
    """IDEMPOTENCY_CONFLICT, retryable; the handler runs once."""
    go, started = anyio.Event(), anyio.Event()
    built = world()

    async def act() -> int:
        built.ran.append(1)
        started.set()
        await go.wait()
        return 1

    built.add(handler=act)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: built.call(idempotency_key="k"))
        await started.wait()
        error = (await built.call(idempotency_key="k")).error
        go.set()
    assert (error.code, error.stage, error.retryable) == ("IDEMPOTENCY_CONFLICT", "policy", True)
    assert built.ran == [1]
    assert (await built.call(idempotency_key="k")).replayed is True


async def test_row_2_with_another_input(world):
    """IDEMPOTENCY_CONFLICT, not retryable, and it says nothing of the first input."""
    built = world().add()
    await built.call({"n": 1}, idempotency_key="k")
    error = (await built.call({"n": 2}, idempotency_key="k")).error
    assert (error.code, error.retryable, error.exposed) == ("IDEMPOTENCY_CONFLICT", False, True)
    assert public_error(error).keys() == {"code", "message", "retryable"}
    assert built.ran == [1]


async def test_row_4_after_completed(world):
    """The stored outcome, `replayed=True`, the handler not run."""
    built = world().add()
    first = await built.call({"n": 3}, idempotency_key="k")
    again = await built.call({"n": 3}, idempotency_key="k")
    assert isinstance(again, Completed)
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.output, again.effect, again.attempts) == (3, first.effect, first.attempts)
    assert again.execution_id == first.execution_id
    assert built.ran == [3]


@pytest.mark.parametrize("raised", [RuntimeError("canary"), Unsure()])
async def test_row_5_after_a_failure_with_unknown_effect(world, raised):
    """The stored failure, replayed: nobody knows whether it happened."""
    built = world()
    built.add(handler=failing(raised, built))
    first = await built.call(idempotency_key="k")
    again = await built.call(idempotency_key="k")
    assert isinstance(again, Failed)
    assert (again.error.code, again.effect) == (first.error.code, "unknown")
    assert public_error(again.error) == public_error(first.error)
    assert built.ran == [1]


async def test_row_5_after_a_failure_with_effect_done(world):
    """The handler returned: it is not run again because its output was bad."""
    built = world()

    async def act() -> int:
        built.ran.append(1)
        return "not an int"

    built.add(handler=act, idempotent=True)
    first = await built.call(idempotency_key="k")
    again = await built.call(idempotency_key="k")
    assert (first.error.code, first.effect) == ("OUTPUT_INVALID", "done")
    assert (again.error.code, again.effect) == ("OUTPUT_INVALID", "done")
    assert built.ran == [1]


async def test_row_6_after_unknown_of_an_idempotent_capability(world):
    """It runs again, under the same `ctx.idempotency_key`."""
    built, keys = world(), []

    async def act(ctx: Context) -> int:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            raise RuntimeError
        return len(keys)

    built.add(handler=act, idempotent=True)
    assert (await built.call(idempotency_key="k")).effect == "unknown"
    outcome = await built.call(idempotency_key="k")
    assert (outcome.output, outcome.replayed) == (2, False)
    assert keys == ["k", "k"]


@pytest.mark.parametrize("raised", [Untouched()])
async def test_row_7_after_a_failure_without_effect(world, raised):
    """It runs: the key was freed."""
    built = world()
    built.add(handler=failing(raised, built))
    for _ in range(2):
        assert (await built.call(idempotency_key="k")).effect == "none"
    assert built.ran == [1, 1]


async def test_row_7_a_refusal_after_the_claim_frees_the_key(world):
    """An execution-phase denial ends the call with the key free."""
    answers = [deny(), allow()]
    late = policy("late", phases={"execution"})(lambda r: answers.pop(0))
    built = world(policies=[late]).add()
    assert (await built.call(idempotency_key="k")).error.code == "POLICY_DENIED"
    outcome = await built.call(idempotency_key="k")
    assert (outcome.output, outcome.replayed) == (1, False)


@pytest.mark.parametrize("how", ["timeout", "token"])
@pytest.mark.parametrize("idempotent", [False, True])
async def test_an_interrupted_call_counts_by_its_effect(world, how, idempotent):
    """Cancelled is an outcome like any other: unknown is replayed or runs again."""
    built, token = world(), CancelToken()

    async def act() -> int:
        built.ran.append(1)
        token.cancel()
        await anyio.sleep_forever()

    built.add(handler=act, idempotent=idempotent)
    options = {"timeout": 0.1} if how == "timeout" else {"cancel": token}
    first = await built.call(idempotency_key="k", **options)
    again = await built.call(idempotency_key="k", timeout=0.1)
    assert (first.status, first.effect) == ("cancelled", "unknown")
    assert again.status == "cancelled"
    if not idempotent:
        assert again.error.code == first.error.code
    assert built.ran == ([1, 1] if idempotent else [1])
