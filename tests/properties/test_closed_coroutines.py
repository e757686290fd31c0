"""A call that is driven by hand and closed at any await: one terminal event, nothing left."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# Whoever closes a coroutine cannot await: no context manager or task group can be left then.
FEATURES = [
    "approval",
    "idempotency",
    "inline approval",
    "limits",
    "nested",
    "policies",
    "retry",
    "settle",
    "shield",
    "swallow",
    "timeout",
    "token",
]


def closed_at(world, step):
    """Drive a call by hand and close it at its suspension number `step`; whether it got there."""

    class Closed:
        steps = 0

        def __await__(self):
            coroutine, value = world.call(), None
            while True:
                try:
                    request = coroutine.send(value)
                except StopIteration:
                    return False
                if self.steps == step:
                    coroutine.close()
                    return True
                self.steps += 1
                value = yield request

    return Closed()


async def check_every_closing(make_world, features):
    """Close the coroutine at each of its suspensions in turn."""
    step, closed = 0, True
    while closed:
        world = make_world(features, quiet=True)
        closed = await closed_at(world, step)
        world.check_evidence(None)
        await world.check_nothing_left()
        step += 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("feature", FEATURES)
def test_each_feature_alone_wherever_closed(make_world, backend, feature):
    """A coroutine closed by hand at any await: one terminal event, nothing awaited or left."""
    anyio.run(check_every_closing, make_world, {feature}, backend=backend)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=10, deadline=None)
@given(features=st.frozensets(st.sampled_from(FEATURES)))
def test_one_event_wherever_closed(make_world, backend, features):
    """Whatever a call is made of, closed by hand at every await: one terminal event."""
    if "approval" in features:
        features -= {"inline approval"}
    anyio.run(check_every_closing, make_world, features, backend=backend)
