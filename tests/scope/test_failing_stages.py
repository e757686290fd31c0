"""Stages that break while they are being interrupted: what stopped the call stays the outcome."""

from __future__ import annotations

import anyio
import pytest

from capgate import Actor, CancelToken, Pipeline, Stage, allow, policy

CANCELLED = ("Cancelled", "CANCELLED", "cancellation", False, "none")
TIMED_OUT = ("Cancelled", "TIMEOUT", "timeout", True, "none")
STOPPED = pytest.mark.parametrize("why", ["token", "timeout"])


class Stop:
    """Stops the call it is awaited in, then breaks in its cleanup."""

    def __init__(self, why):
        self.token = CancelToken()
        self.why = why
        self.told = CANCELLED if why == "token" else TIMED_OUT
        self.options = {"cancel": self.token}
        if why == "timeout":
            self.options["timeout"] = 0.02

    async def __call__(self, *_):
        if self.why == "token":
            self.token.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup broke")


@STOPPED
@pytest.mark.parametrize("phase", ["discovery", "invocation", "execution"])
async def test_policy_that_breaks_while_interrupted(make_rig, why, phase):
    """A policy that raises while being interrupted does not turn the stop into POLICY_FAILED."""
    stop = Stop(why)
    rig = make_rig(policies=[policy("breaks", phases={phase})(stop)])
    rig.job(rig.done)
    assert rig.told(await rig.attempt(**stop.options)) == stop.told
    rig.saw("requested", "cancelled", entered=0, code=stop.told[1], native=False)


@STOPPED
async def test_access_rule_that_breaks_while_interrupted(rig, why):
    """An access rule that raises while being interrupted does not turn the stop into a refusal."""
    stop = Stop(why)
    rig.job(rig.done, access=stop)
    assert rig.told(await rig.attempt(actor=Actor("usr_1"), **stop.options)) == stop.told
    rig.saw("requested", "cancelled", entered=0, code=stop.told[1], native=False)


@STOPPED
async def test_authenticator_that_breaks_while_interrupted(make_rig, why):
    """An authenticator that raises while being interrupted does not hide the stop."""
    stop = Stop(why)

    async def authenticate(credentials):
        await stop()

    rig = make_rig(authenticate=authenticate)
    rig.job(rig.done)
    assert rig.told(await rig.attempt(credentials="card", **stop.options)) == stop.told
    rig.saw("requested", "cancelled", entered=0, code=stop.told[1], native=False)


@STOPPED
async def test_custom_stage_that_breaks_while_interrupted(make_rig, why):
    """A custom stage that raises while being interrupted does not hide the stop."""
    stop = Stop(why)

    class Breaks(Stage):
        name = "breaks"

        async def run(self, invocation):
            await stop()

    rig = make_rig(pipeline=Pipeline.default().before("execution", Breaks()))
    rig.job(rig.done)
    assert rig.told(await rig.attempt(**stop.options)) == stop.told
    rig.saw("requested", "cancelled", entered=0, code=stop.told[1], native=False)


@STOPPED
async def test_policy_that_swallows_while_interrupted(make_rig, why):
    """A policy that swallows the interruption and allows does not let the call go on."""
    stop = Stop(why)

    @policy("swallows")
    async def swallows(request):
        try:
            await stop()
        except ValueError:
            return allow()

    rig = make_rig(policies=[swallows])
    rig.job(rig.done)
    assert rig.told(await rig.attempt(**stop.options)) == stop.told
    rig.saw("requested", "cancelled", entered=0, code=stop.told[1], native=False)


async def test_policy_that_breaks_while_natively_cancelled(make_rig):
    """A policy that raises while natively cancelled does not hide the cancellation."""

    @policy("breaks")
    async def breaks(request):
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup broke")

    rig = make_rig(policies=[breaks])
    rig.job(rig.done)
    with anyio.move_on_after(0.02) as scope:
        await rig.attempt()
    assert scope.cancelled_caught
    rig.saw("requested", "cancelled", entered=0, code="CANCELLED", native=True)
