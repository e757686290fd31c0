"""The contract of every `IdempotencyStore`: what a repeat gets, when, and who may say so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from capgate.errors import CapabilityError, ErrorCode
from capgate.idempotency import (
    Claimed,
    Conflict,
    InFlight,
    Replay,
    StoredOutcome,
    Suspended,
    restore_error,
    store_error,
)
from capgate.testing.check import Check, Factory, checks, expect, race

if TYPE_CHECKING:
    from capgate.errors import JSON
    from capgate.idempotency import Claim, IdempotencyStore

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
TTL: Final = 60.0
GONE: Final = NOW + timedelta(seconds=TTL)
TICK: Final = timedelta(microseconds=1)
RACERS: Final = 50
KEY: Final = '["orders.refund","user","dana","k\\u0000\'1"]'
_OUTPUTS: Final[tuple[JSON, ...]] = (
    None,
    {},
    "123",
    "null",
    "a\x00b",
    2**53 + 1,
    10**40,
    [1, 1.5, True],
    {"n": {"": []}},
)


def idempotency_store_contract(factory: Factory[IdempotencyStore]) -> list[Check]:
    """Return the checks that every idempotency store passes; see `approval_store_contract`.

    Args:
        factory: Called once a check; returns an empty store, an awaitable of one, or an async
            context manager that opens and closes one.
    """
    return checks(factory, _PROMISES)


async def _begin(
    store: IdempotencyStore,
    execution_id: str = "exe_1",
    *,
    key: str = KEY,
    value: str = "hash",
    now: datetime = NOW,
) -> Claim:
    return await store.begin(key, value, execution_id, now, TTL)


def _done(execution_id: str = "exe_1", output: JSON = "done") -> StoredOutcome:
    return StoredOutcome(execution_id, "completed", output=output, effect="done", attempts=2)


async def claims_an_unknown_key(store: IdempotencyStore) -> None:
    """The first use of a key runs; keys do not touch one another."""
    expect(await _begin(store) == Claimed(), "an unknown key is claimed")
    expect(await _begin(store, "exe_2", key="k2") == Claimed(), "another key is another call")


async def refuses_a_repeat_in_flight(store: IdempotencyStore) -> None:
    """While the first still runs a repeat is told so."""
    await _begin(store)
    expect(await _begin(store, "exe_2") == InFlight(), "in flight")


async def refuses_another_input_in_every_state(store: IdempotencyStore) -> None:
    """Another input hash is a conflict, in flight, suspended and completed."""
    await _begin(store)
    expect(await _begin(store, "exe_2", value="other") == Conflict(), "in flight")
    await store.suspend(KEY, "apr_1")
    expect(await _begin(store, "exe_2", value="other") == Conflict(), "suspended")
    await store.complete(KEY, _done())
    expect(await _begin(store, "exe_2", value="other") == Conflict(), "completed")


async def answers_a_suspended_call_with_its_approval(store: IdempotencyStore) -> None:
    """While the first waits for approval a repeat gets the same request."""
    await _begin(store)
    expect(await store.suspend(KEY, "apr_1", execution_id="exe_1"), "suspended by its holder")
    expect(await _begin(store, "exe_2") == Suspended("apr_1", "exe_1"), "the same request")
    expect(not await store.suspend(KEY, "apr_2"), "a suspended call keeps its request")


async def moves_on_to_the_request_that_replaces_one(store: IdempotencyStore) -> None:
    """A second sign-off takes the place of the first; its resume need not hold the key."""
    await _begin(store)
    await store.suspend(KEY, "apr_1", execution_id="exe_1")
    moved = await store.suspend(KEY, "apr_2", execution_id="exe_resumed", replaces="apr_1")
    expect(moved, "moved by a resumed call")
    expect(await _begin(store, "exe_2") == Suspended("apr_2", "exe_1"), "the holder stays")
    late = await store.suspend(KEY, "apr_3", execution_id="exe_late", replaces="apr_1")
    expect(not late, "what it replaces no longer stands there")
    expect(await _begin(store, "exe_2", now=GONE) == Claimed(), "and it lives no longer for it")


async def replaces_nothing_of_another_call(store: IdempotencyStore) -> None:
    """A call in flight, or ended, waits for no approval that could be replaced."""
    await _begin(store)
    moved = await store.suspend(KEY, "apr_2", execution_id="exe_2", replaces="apr_1")
    expect(not moved, "in flight for another execution")
    expect(await store.suspend(KEY, "apr_2", execution_id="exe_1", replaces="apr_1"), "its own")
    await store.complete(KEY, _done())
    expect(not await store.suspend(KEY, "apr_3", replaces="apr_2"), "ended")


async def replays_a_completed_call(store: IdempotencyStore) -> None:
    """After the end a repeat gets the stored outcome, whole, and as often as it asks."""
    await _begin(store)
    expect(await store.complete(KEY, _done()), "completed by its holder")
    for execution_id in ("exe_2", "exe_3"):
        expect(await _begin(store, execution_id) == Replay(_done()), "the stored outcome")


async def replays_every_output_without_loss(store: IdempotencyStore) -> None:
    """Outputs come back with their exact types."""
    for place, output in enumerate(_OUTPUTS):
        await _begin(store, key=f"k{place}")
        await store.complete(f"k{place}", _done(output=output))
        claim = await _begin(store, key=f"k{place}")
        kept = isinstance(claim, Replay) and repr(claim.outcome.output) == repr(output)
        expect(kept, f"output {place} came back as it was")


async def replays_a_failure(store: IdempotencyStore) -> None:
    """A stored failure comes back with every field of its error."""
    error = CapabilityError(ErrorCode.EXECUTION_FAILED, "No.", retryable=True, reason="r")
    failed = StoredOutcome("exe_1", "failed", error=store_error(error), effect="unknown")
    await _begin(store)
    await store.complete(KEY, failed)
    claim = await _begin(store)
    expect(claim == Replay(failed), "the stored outcome")
    if isinstance(claim, Replay) and claim.outcome.error is not None:
        expect(store_error(restore_error(claim.outcome.error)) == failed.error, "the same error")


async def shares_nothing_with_its_callers(store: IdempotencyStore) -> None:
    """Changing an outcome that was handed in or out changes nothing stored."""
    handed_in = _done(output={"lines": [1]})
    await _begin(store)
    await store.complete(KEY, handed_in)
    handed_in.output["lines"].append(2)
    claim = await _begin(store)
    if isinstance(claim, Replay):
        claim.outcome.output["lines"].append(3)
    expect(await _begin(store) == Replay(_done(output={"lines": [1]})), "stored as completed")


async def frees_a_released_key(store: IdempotencyStore) -> None:
    """After a failure without effect the key may be claimed, with another input too."""
    await _begin(store)
    expect(await store.release(KEY, "exe_1"), "released by its holder")
    expect(await _begin(store, "exe_2", value="other") == Claimed(), "claimed anew")


async def frees_a_suspended_key_for_its_holder(store: IdempotencyStore) -> None:
    """A key whose approval has failed is released with the execution id that `begin` told."""
    await _begin(store)
    await store.suspend(KEY, "apr_1")
    claim = await _begin(store, "exe_2")
    holder = claim.execution_id if isinstance(claim, Suspended) else ""
    expect(await store.release(KEY, holder), "released")
    expect(await _begin(store, "exe_2") == Claimed(), "claimed anew")
    expect(not await store.release(KEY, holder), "and no longer the first holder's")


async def only_the_holder_may_change_a_call_in_flight(store: IdempotencyStore) -> None:
    """An execution that lost the key cannot suspend, end or free it."""
    await _begin(store)
    expect(not await store.suspend(KEY, "apr_1", execution_id="exe_2"), "not suspended")
    expect(not await store.complete(KEY, _done("exe_2")), "not completed")
    expect(not await store.release(KEY, "exe_2"), "not released")
    expect(await _begin(store, "exe_3") == InFlight(), "still in flight")


async def a_resumed_call_may_end_a_suspended_one(store: IdempotencyStore) -> None:
    """A resume runs under a new execution id and keeps the outcome for the key."""
    await _begin(store)
    await store.suspend(KEY, "apr_1")
    expect(await store.complete(KEY, _done("exe_resumed")), "completed by the resume")
    expect(await _begin(store, "exe_2") == Replay(_done("exe_resumed")), "replayed")


async def what_has_ended_stays(store: IdempotencyStore) -> None:
    """A completed key is not completed again, suspended or released."""
    await _begin(store)
    await store.complete(KEY, _done())
    expect(not await store.complete(KEY, _done(output="again")), "not completed again")
    expect(not await store.suspend(KEY, "apr_1"), "not suspended")
    expect(not await store.release(KEY, "exe_1"), "not released")
    expect(await _begin(store, "exe_2") == Replay(_done()), "the first outcome stays")


async def knows_no_unknown_key(store: IdempotencyStore) -> None:
    """Nothing can be said about a key that nobody claimed."""
    expect(not await store.suspend(KEY, "apr_1"), "not suspended")
    expect(not await store.complete(KEY, _done()), "not completed")
    expect(not await store.release(KEY, "exe_1"), "not released")
    expect(await _begin(store) == Claimed(), "and it is still unknown")


async def forgets_at_the_tick_of_expiry(store: IdempotencyStore) -> None:
    """An entry is there one tick before its ttl is over, and gone at the tick."""
    for key in ("flight", "suspended", "completed"):
        await _begin(store, key=key)
    await store.suspend("suspended", "apr_1")
    await store.complete("completed", _done())
    for key in ("flight", "suspended", "completed"):
        kept = await _begin(store, "exe_2", key=key, now=GONE - TICK)
        expect(kept != Claimed(), f"{key}: still there one tick before")
    for key in ("flight", "suspended", "completed"):
        expect(await _begin(store, "exe_2", key=key, now=GONE) == Claimed(), f"{key}: gone at it")


async def a_late_end_does_not_touch_the_next_claim(store: IdempotencyStore) -> None:
    """An execution that outlived its entry cannot end or free the next one."""
    await _begin(store)
    await _begin(store, "exe_2", now=GONE)
    expect(not await store.complete(KEY, _done("exe_1")), "not completed")
    expect(not await store.release(KEY, "exe_1"), "not released")
    expect(await _begin(store, "exe_3", now=GONE) == InFlight(), "the second claim stands")


async def a_reclaimed_key_lives_its_own_time(store: IdempotencyStore) -> None:
    """A key that was released and claimed again expires by its second claim."""
    later = NOW + timedelta(seconds=TTL / 2)
    await _begin(store)
    await store.release(KEY, "exe_1")
    await _begin(store, "exe_2", now=later)
    expect(await _begin(store, "exe_3", now=GONE) == InFlight(), "not gone with the first")


async def many_begin_one_claims(store: IdempotencyStore) -> None:
    """Of many first uses at once one runs and the others are told that it does."""
    ended = await race([partial(_begin, store, f"exe_{n}") for n in range(RACERS)])
    expect(ended.count(Claimed()) == 1, "one claims")
    expect(ended.count(InFlight()) == RACERS - 1, "the others are in flight")


_PROMISES: Final = (
    claims_an_unknown_key,
    refuses_a_repeat_in_flight,
    refuses_another_input_in_every_state,
    answers_a_suspended_call_with_its_approval,
    moves_on_to_the_request_that_replaces_one,
    replaces_nothing_of_another_call,
    replays_a_completed_call,
    replays_every_output_without_loss,
    replays_a_failure,
    shares_nothing_with_its_callers,
    frees_a_released_key,
    frees_a_suspended_key_for_its_holder,
    only_the_holder_may_change_a_call_in_flight,
    a_resumed_call_may_end_a_suspended_one,
    what_has_ended_stays,
    knows_no_unknown_key,
    forgets_at_the_tick_of_expiry,
    a_late_end_does_not_touch_the_next_claim,
    a_reclaimed_key_lives_its_own_time,
    many_begin_one_claims,
)
