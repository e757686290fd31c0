"""What a key is scoped by, how long it lives, and what stands before it."""

from __future__ import annotations

import pytest

from capgate import Actor, Context, Forbidden, allow, deny, policy
from capgate.idempotency import MemoryIdempotency

DANA, EVE = Actor("u_dana"), Actor("u_eve")
DAY = 24 * 3600


@pytest.fixture
def keep():
    """One store of keys, which outlives an engine."""
    return MemoryIdempotency()


def failing(raised, built):
    async def act(n: int = 1) -> int:
        built.ran.append(n)
        raise raised

    return act


async def test_an_entry_lives_a_day(world):
    """Entries expire: 24 hours by the engine's clock."""
    built = world().add()
    await built.call(idempotency_key="k")
    built.clock.advance(DAY - 1)
    assert (await built.call(idempotency_key="k")).replayed is True
    built.clock.advance(1)
    assert (await built.call(idempotency_key="k")).replayed is False
    assert built.ran == [1, 1]


async def test_a_new_engine_on_the_same_store_replays(world, keep):
    """After a restart the table still holds."""
    first = world(idempotency=keep).add()
    await first.call({"n": 3}, idempotency_key="k")
    second = world(idempotency=keep).add()
    outcome = await second.call({"n": 3}, idempotency_key="k")
    assert (outcome.output, outcome.replayed) == (3, True)
    assert second.ran == []


async def test_keys_are_scoped_by_actor(world):
    """SI-3: another actor's key is another key, and its outcome stays with it."""
    built = world().add()
    await built.call({"n": 1}, actor=DANA, idempotency_key="k")
    outcome = await built.call({"n": 2}, actor=EVE, idempotency_key="k")
    kind = await built.call({"n": 3}, actor=Actor("u_dana", "service"), idempotency_key="k")
    assert [outcome.replayed, kind.replayed] == [False, False]
    assert built.ran == [1, 2, 3]


async def test_keys_are_scoped_by_capability(world):
    """One key, two operations."""
    built = world().add().add("other")
    for id_ in ("act", "other"):
        assert (await built.call(id=id_, idempotency_key="k")).replayed is False


async def test_the_same_input_in_another_form_is_the_same(world):
    """It is the validated input that is hashed, not what was sent."""
    built = world().add()
    await built.call({"n": 7}, idempotency_key="k")
    assert (await built.call({"n": "7"}, idempotency_key="k")).replayed is True


@pytest.mark.parametrize("change", ["policy", "access", "exposure", "anonymous", "input"])
async def test_every_gate_stands_before_a_replay(world, change):
    """SI-2: the key is claimed after the policies: a replay is no way around them."""
    wrong = set()
    judge = policy("judge")(lambda r: deny() if "policy" in wrong else allow())
    built = world(policies=[judge])
    built.add(access=lambda r: "access" not in wrong)
    await built.call(idempotency_key="k")
    wrong.add(change)
    outcome = await built.call(
        {"n": "x"} if change == "input" else None,
        idempotency_key="k",
        surface="mcp" if change == "exposure" else "direct",
        actor=None if change == "anonymous" else DANA,
    )
    assert outcome.error.code in {
        "POLICY_DENIED",
        "FORBIDDEN",
        "CAPABILITY_NOT_FOUND",
        "UNAUTHENTICATED",
        "INPUT_INVALID",
    }


async def test_a_refusal_before_the_claim_leaves_the_key_alone(world):
    """What was denied claimed nothing."""
    answers = [deny(), allow()]
    built = world(policies=[policy("p")(lambda r: answers.pop(0))]).add()
    await built.call(idempotency_key="k")
    assert (await built.call(idempotency_key="k")).output == 1


async def test_a_handlers_own_forbidden_may_have_done_something(world):
    """It was entered: the failure is replayed."""
    built = world()
    built.add(handler=failing(Forbidden("Not yours."), built))
    for _ in range(2):
        outcome = await built.call(idempotency_key="k")
        assert (outcome.error.code, outcome.effect) == ("FORBIDDEN", "unknown")
    assert built.ran == [1]


async def test_without_a_key_nothing_is_kept(world):
    """Every call runs, and its execution id stands in: unique across calls."""
    keys = []

    async def act(ctx: Context) -> None:
        keys.append((ctx.idempotency_key, ctx.execution_id))

    built = world().add(handler=act)
    await built.call()
    await built.call()
    assert all(key == execution for key, execution in keys)
    assert keys[0] != keys[1]


@pytest.mark.parametrize("key", ["", "  ", 7, b"k"])
async def test_a_key_is_text_that_says_something(world, key):
    """A programming error at once."""
    with pytest.raises(TypeError, match="idempotency_key"):
        await world().add().call(idempotency_key=key)
