"""The truth table's row about `timeout=`: it bounds the whole call, all stages and attempts."""

from __future__ import annotations

import anyio
import pytest

from capgate import Actor, DomainError, Pipeline, Retry, Stage, allow, policy

TIMED_OUT = ("Cancelled", "TIMEOUT", "timeout", True)
ENDED = ("requested", "started", "cancelled")
QUIET = {"code": "TIMEOUT", "native": False, "still_running": False}


class Transient(DomainError):
    """Worth another try."""

    retryable = True


async def test_deadline_of_the_call_fires_in_a_synchronous_stage(make_rig, block):
    """`timeout=` fires in a synchronous stage: TIMEOUT, handler never entered, effect none."""

    @policy("slow")
    def slow(request):
        block(0.03)
        return allow()

    rig = make_rig(policies=[slow])
    rig.job(rig.done)
    assert rig.told(await rig.attempt(timeout=0.02)) == (*TIMED_OUT, "none")
    rig.saw("requested", "cancelled", entered=0, effect="none", attempts=0, **QUIET)


class Pause(Stage):
    """A custom stage that waits."""

    name = "pause"

    async def run(self, invocation):
        await anyio.sleep_forever()


async def test_deadline_of_the_call_fires_in_a_custom_stage(make_rig):
    """`timeout=` interrupts a stage that waits: TIMEOUT, handler never entered."""
    rig = make_rig(pipeline=Pipeline.default().before("execution", Pause()))
    rig.job(rig.done)
    assert rig.told(await rig.attempt(timeout=0.02)) == (*TIMED_OUT, "none")
    rig.saw("requested", "cancelled", entered=0, effect="none", **QUIET)


async def test_deadline_of_the_call_fires_in_the_authenticator(make_rig):
    """`timeout=` interrupts the authenticator too."""

    async def authenticate(credentials):
        await anyio.sleep_forever()
        return Actor("usr_1")

    rig = make_rig(authenticate=authenticate)
    rig.job(rig.done)
    outcome = await rig.attempt(timeout=0.02, credentials="card")
    assert rig.told(outcome) == (*TIMED_OUT, "none")
    rig.saw("requested", "cancelled", entered=0, effect="none", **QUIET)


async def test_deadline_of_the_call_fires_in_the_dependencies(make_rig):
    """`timeout=` interrupts a factory of dependencies too: it bounds the whole call."""

    async def factory(invocation):
        await anyio.sleep_forever()

    rig = make_rig(deps=factory)
    rig.job(rig.done)
    assert rig.told(await rig.attempt(timeout=0.02)) == (*TIMED_OUT, "none")
    rig.saw("requested", "cancelled", entered=0, effect="none", **QUIET)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"], indirect=True)
async def test_deadline_of_the_call_spans_attempts(rig):
    """`timeout=` bounds all attempts together, the capability's own each one."""
    retry = Retry(attempts=9, backoff=0.001)
    rig.job(rig.forever, idempotent=True, retry=retry, timeout=0.02)
    outcome = await rig.attempt(timeout=0.05)
    assert rig.told(outcome) == (*TIMED_OUT, "unknown")
    rig.saw("requested", "started", "retried", "retried", "cancelled", entered=3, effect="unknown")


async def test_deadline_of_the_call_fires_in_back_off(make_rig):
    """`timeout=` fires in back-off: TIMEOUT, not entered again, effect unknown."""
    rig = make_rig(jitter=lambda: 1.0)

    async def body(ctx):
        raise Transient

    retry = Retry(attempts=2, backoff=10)
    rig.job(body, idempotent=True, retry=retry)
    assert rig.told(await rig.attempt(timeout=0.02)) == (*TIMED_OUT, "unknown")
    rig.saw(*ENDED, effect="unknown", **QUIET)


async def test_deadline_after_the_return_changes_nothing(make_rig, block):
    """`timeout=` that passes after the handler returned changes nothing."""

    class Slow(Stage):
        name = "slow"

        def run(self, invocation):
            block(0.03)

    rig = make_rig(pipeline=Pipeline.default().after("execution", Slow()))
    rig.job(rig.done)
    assert rig.told(await rig.attempt(timeout=0.02)) == ("Completed", "done", False, "done")
    rig.saw("requested", "started", "completed", late=False)
