"""However a call is built and wherever it is cancelled: one outcome, one event, nothing left."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FEATURES = [
    "approval",
    "deps",
    "idempotency",
    "inline approval",
    "limits",
    "nested",
    "policies",
    "retry",
    "settle",
    "shield",
    "strict",
    "swallow",
    "timeout",
    "token",
]
KINDS = [
    ("asyncio", "token"),
    ("asyncio", "scope"),
    ("asyncio", "task"),
    ("asyncio", "task, again and again"),
    ("trio", "token"),
    ("trio", "scope"),
]


class Stepped:
    """Awaits a coroutine in this very task; fires once it has been suspended so many times."""

    def __init__(self, coroutine, step, fire, *, again=False):
        self.coroutine = coroutine
        self.step = step
        self.fire = fire
        self.again = again
        self.steps = 0

    def __await__(self):
        resume, value = self.coroutine.send, None
        while True:
            self.stepped()
            try:
                request = resume(value)
            except StopIteration as stop:
                return stop.value
            try:
                resume, value = self.coroutine.send, (yield request)
            except BaseException as raised:
                resume, value = self.coroutine.throw, raised

    def stepped(self):
        if self.steps == self.step or (self.again and self.steps > self.step):
            self.fire()
        self.steps += 1


async def cancelled_at(world, kind, step):
    """Call, cancelled after `step` suspensions; returns the outcome or None, and whether fired."""
    if kind == "token":
        stepped = Stepped(world.call(), step, world.token.cancel)
        return await stepped, stepped.steps > step
    if kind == "scope":
        outcome = None
        with anyio.CancelScope() as scope:
            stepped = Stepped(world.call(), step, scope.cancel)
            outcome = await stepped
        return outcome, stepped.steps > step
    return await _task_cancelled_at(world, step, again="again" in kind)


async def _task_cancelled_at(world, step, *, again):
    made = []

    async def call():
        fire = asyncio.current_task().cancel
        made.append(Stepped(world.call(), step, fire, again=again))
        return await made[0]

    task = asyncio.create_task(call())
    await asyncio.wait({task})
    outcome = None if task.cancelled() else task.result()
    return outcome, made[0].steps > step


async def check_every_step(make_world, features, kind):
    """Cancel at each suspension in turn, from before the first to after the last."""
    step, fired = 0, True
    while fired:
        world = make_world(features)
        outcome, fired = await cancelled_at(world, kind, step)
        world.check_evidence(outcome)
        await world.check_nothing_left()
        if "idempotency" in features and "approval" not in features:
            await world.check_key()
        step += 1
    assert outcome is not None
    assert step > 3


@pytest.mark.parametrize(("backend", "kind"), KINDS)
@settings(max_examples=15, deadline=None)
@given(features=st.frozensets(st.sampled_from(FEATURES)))
def test_one_outcome_and_one_event_wherever_cancelled(make_world, backend, kind, features):
    """Whatever a call is made of, cancelled at every await: one outcome, one terminal event."""
    if kind == "token":
        features |= {"token"}
    if "approval" in features:
        features -= {"inline approval"}
    anyio.run(check_every_step, make_world, features, kind, backend=backend)


@pytest.mark.parametrize(("backend", "kind"), KINDS)
@pytest.mark.parametrize("feature", FEATURES)
def test_each_feature_alone_wherever_cancelled(make_world, backend, kind, feature):
    """Each feature alone, cancelled at every await: one outcome, one terminal event."""
    features = {feature, "token"} if kind == "token" else {feature}
    anyio.run(check_every_step, make_world, features, kind, backend=backend)
