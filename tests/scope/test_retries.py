"""Retries: only what may be repeated, only while nobody has stopped the call."""

from __future__ import annotations

import itertools

import anyio
import pytest

from capgate import (
    CapabilityError,
    ConfigurationError,
    DomainError,
    Effect,
    Engine,
    Limits,
    Retry,
)
from capgate.audit import AuditConfig


class Transient(DomainError):
    """Worth another try; nothing was done."""

    retryable = True


class Harmless(DomainError):
    """Worth another try, and nothing was done."""

    retryable = True
    effect = Effect.NONE


class Final(DomainError):
    """Not worth another try."""


def failing(*failures, then="done"):
    """Return a body that raises these, then returns; and the list of contexts it saw."""
    left = list(failures)
    seen = []

    async def body(ctx):
        seen.append((ctx.attempt_number, ctx.execution_id, ctx.idempotency_key))
        if left:
            raise left.pop(0)
        return then

    return body, seen


async def test_second_try_succeeds(rig):
    """A retryable failure is tried again: Completed, with every try told."""
    body, seen = failing(Transient(), Transient())
    rig.job(body, idempotent=True, retry=Retry(attempts=3))
    outcome = await rig.attempt()
    assert rig.told(outcome) == ("Completed", "done", False, "done")
    assert outcome.attempts == 3
    assert [number for number, _, _ in seen] == [1, 2, 3]
    rig.saw("requested", "started", "retried", "retried", "completed", entered=3, attempts=3)
    retried = [dict(e.data) for e in rig.audit.of_type("capability.retried")]
    assert retried == [
        {"attempt": 2, "previous_error_code": "EXECUTION_FAILED"},
        {"attempt": 3, "previous_error_code": "EXECUTION_FAILED"},
    ]


async def test_tries_are_counted_in_all(rig):
    """`attempts` is the number of tries in all; the last failure is the outcome."""
    last = Transient("third")
    body, _ = failing(Transient("first"), Transient("second"), last, Transient("fourth"))
    rig.job(body, idempotent=True, retry=Retry(attempts=3))
    outcome = await rig.attempt()
    assert (outcome.error.public_message, outcome.error.retryable) == ("third", True)
    rig.saw("requested", "started", "retried", "retried", "failed", entered=3, attempts=3)


async def test_all_tries_are_one_execution(rig):
    """The execution id and the idempotency key are the same on every try."""
    body, seen = failing(Transient(), Transient())
    rig.job(body, idempotent=True, retry=Retry(attempts=3))
    await rig.attempt(idempotency_key="key-1")
    assert len({(execution, key) for _, execution, key in seen}) == 1
    assert seen[0][2] == "key-1"
    assert len({event.execution_id for event in rig.audit.events}) == 1


@pytest.mark.parametrize("failure", [Final(), ValueError("own")])
async def test_what_is_not_retryable_is_not_tried_again(rig, failure):
    """A failure that is not retryable ends the call at once."""
    body, _ = failing(failure)
    rig.job(body, idempotent=True, retry=Retry(attempts=3))
    assert (await rig.attempt()).status == "failed"
    rig.saw("requested", "started", "failed", entered=1, attempts=1)


async def test_author_s_own_error_may_be_retryable(rig):
    """An EXECUTION_FAILED that the author made retryable is tried again."""
    body, _ = failing(CapabilityError("EXECUTION_FAILED", retryable=True))
    rig.job(body, idempotent=True, retry=Retry(attempts=2))
    assert (await rig.attempt()).status == "completed"
    rig.saw("requested", "started", "retried", "completed", entered=2)


@pytest.mark.parametrize("side_effect", ["none", "read"])
async def test_reads_are_tried_again_without_more_ado(rig, side_effect):
    """A capability without effect needs no `idempotent=True`."""
    body, _ = failing(Transient())
    rig.job(body, side_effect=side_effect, retry=Retry(attempts=2))
    assert (await rig.attempt()).effect == "none"
    rig.saw("requested", "started", "retried", "completed", entered=2)


@pytest.mark.parametrize("side_effect", ["write", "destructive", "external"])
def test_writes_are_not_tried_again_unless_idempotent(side_effect):
    """`retry` on a write-like capability without `idempotent=True` is refused at registration."""
    engine = Engine("e")

    async def job() -> str:
        """Do it."""
        return "done"

    fields = {"access": "public", "side_effect": side_effect, "retry": Retry(attempts=2)}
    with pytest.raises(ConfigurationError):
        engine.capability("job", **fields)(job)
    engine.capability("job", idempotent=True, **fields)(job)


async def test_without_retry_nothing_is_tried_again(rig):
    """A capability without `retry` is tried once, whatever it raises."""
    body, _ = failing(Transient())
    rig.job(body, idempotent=True)
    assert (await rig.attempt()).error.retryable is True
    rig.saw("requested", "started", "failed", entered=1)


async def test_when_says_no(rig):
    """`when` that returns False ends the tries; it is given the error."""
    asked = []

    def when(error):
        asked.append(error.code)
        return len(asked) < 2

    body, _ = failing(Transient(), Transient(), Transient())
    rig.job(body, idempotent=True, retry=Retry(attempts=5, when=when))
    assert (await rig.attempt()).status == "failed"
    assert asked == ["EXECUTION_FAILED", "EXECUTION_FAILED"]
    rig.saw("requested", "started", "retried", "failed", entered=2)


@pytest.mark.parametrize("answer", [None, True, 0])
async def test_when_says_anything_but_no(rig, answer):
    """Anything but False from `when` lets the next try happen."""
    body, _ = failing(Transient())
    rig.job(body, idempotent=True, retry=Retry(attempts=2, when=lambda error: answer))
    assert (await rig.attempt()).status == "completed"
    rig.saw("requested", "started", "retried", "completed", entered=2)


async def test_when_that_breaks_is_a_no(rig):
    """A `when` that raises ends the tries; the handler's failure stays the outcome."""

    def when(error):
        raise LookupError("broken")

    body, _ = failing(Transient("own words"))
    rig.job(body, idempotent=True, retry=Retry(attempts=2, when=when))
    assert (await rig.attempt()).error.public_message == "own words"
    rig.saw("requested", "started", "failed", entered=1)


async def test_timeout_arms_at_every_try(rig):
    """A try that ran into its deadline is tried again with a deadline of its own."""
    seen = []

    async def body(ctx):
        seen.append(ctx.deadline)
        if len(seen) < 3:
            await anyio.sleep_forever()
        return "done"

    rig.job(body, idempotent=True, timeout=0.02, retry=Retry(attempts=3))
    assert rig.told(await rig.attempt()) == ("Completed", "done", False, "done")
    assert seen == sorted(set(seen))
    rig.saw("requested", "started", "retried", "retried", "completed", entered=3, late=False)
    retried = rig.audit.of_type("capability.retried")
    assert [event.data["previous_error_code"] for event in retried] == ["TIMEOUT", "TIMEOUT"]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
async def test_back_off_grows_and_is_capped(make_rig):
    """Back-off doubles from `backoff` up to `max_backoff`, times the jitter."""
    rig = make_rig(jitter=lambda: 0.5)
    times = []

    async def body(ctx):
        times.append(anyio.current_time())
        raise Transient

    retry = Retry(attempts=5, backoff=0.02, max_backoff=0.06)
    rig.job(body, idempotent=True, retry=retry)
    await rig.attempt()
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert waits == pytest.approx([0.01, 0.02, 0.03, 0.03])


async def test_full_jitter_may_be_nothing(rig):
    """With a jitter of 0 the next try comes at once."""
    body, _ = failing(Transient())
    rig.job(body, idempotent=True, retry=Retry(attempts=2, backoff=3600, max_backoff=3600))
    with anyio.fail_after(5):
        assert (await rig.attempt()).status == "completed"


async def test_invalid_output_is_not_tried_again(rig):
    """OUTPUT_INVALID is never tried again: the handler has returned."""
    body, _ = failing(then=7)
    rig.job(body, idempotent=True, retry=Retry(attempts=3))
    outcome = await rig.attempt()
    assert (outcome.error.code, outcome.effect) == ("OUTPUT_INVALID", "done")
    rig.saw("requested", "started", "failed", entered=1)


async def test_earlier_doubt_stays(rig):
    """After a try whose effect is unknown, a later harmless failure does not make it none."""
    body, _ = failing(Transient(), Harmless())
    rig.job(body, idempotent=True, retry=Retry(attempts=2))
    assert (await rig.attempt()).effect == "unknown"


async def test_harmless_tries_leave_no_doubt(rig):
    """Tries that all failed before anything was done: effect none."""
    body, _ = failing(Harmless(), Harmless())
    rig.job(body, idempotent=True, retry=Retry(attempts=2))
    assert (await rig.attempt()).effect == "none"


async def test_timed_out_tries_leave_doubt(rig):
    """A try that timed out leaves the effect unknown, whatever the last try says."""
    tries = []

    async def body(ctx):
        tries.append(1)
        if len(tries) == 1:
            await anyio.sleep_forever()
        raise Harmless

    rig.job(body, idempotent=True, timeout=0.02, retry=Retry(attempts=2))
    outcome = await rig.attempt()
    assert (outcome.error.code, outcome.effect) == ("EXECUTION_FAILED", "unknown")


async def test_retried_is_best_effort_under_strict_audit(make_rig):
    """`retried` is best effort even where the audit is strict: its failure stops nothing."""

    def sink(event):
        if event.type == "capability.retried":
            raise OSError("disk full")

    rig = make_rig(audit=AuditConfig(sink, strict=True), limits=Limits())
    body, _ = failing(Transient())
    rig.job(body, idempotent=True, retry=Retry(attempts=2))
    assert (await rig.attempt()).status == "completed"
    assert rig.entered == 2


async def test_native_cancellation_in_back_off(make_rig):
    """A native cancellation in back-off goes on: not entered again, effect unknown."""
    rig = make_rig(jitter=lambda: 1.0)
    body, _ = failing(Transient())
    rig.job(body, idempotent=True, retry=Retry(attempts=2, backoff=10))
    with anyio.move_on_after(0.02) as scope:
        await rig.attempt()
    assert scope.cancelled_caught
    rig.saw("requested", "started", "cancelled", code="CANCELLED", native=True, effect="unknown")
