"""A call that has ended keeps nothing alive."""

from __future__ import annotations

import gc
import weakref

import anyio
import pytest

from capgate import CancelToken

PLAIN = pytest.param(dict, id="plain")
TIMED = pytest.param(lambda: {"timeout": 60}, id="timeout")
HELD = pytest.param(lambda: {"cancel": CancelToken()}, id="token")
CALLS = pytest.mark.parametrize("options", [PLAIN, TIMED, HELD])


class Local:
    """Something a handler has in a local variable."""


@pytest.fixture
def no_collector():
    """Switch the cyclic collector off, so that only reference counts free."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@CALLS
async def test_a_completed_call_leaves_nothing_to_the_collector(rig, no_collector, options):
    """Once a call has completed, what its handler had in its frame is freed at once."""
    seen = []

    async def body(ctx):
        local = Local()
        seen.append(weakref.ref(local))
        return "done"

    rig.job(body)
    await rig.attempt(**options())
    assert seen[0]() is None


@CALLS
@pytest.mark.parametrize("end", ["raises", "times out"])
async def test_nothing_holds_on_to_a_call_that_ended_badly(rig, log, options, end):
    """Once the outcome is dropped, nothing of ours holds on to the handler's frame."""
    seen = []

    async def body(ctx):
        local = Local()
        seen.append(weakref.ref(local))
        if end == "raises":
            raise ValueError("own")
        await anyio.sleep_forever()

    rig.job(body, timeout=0.02)
    await rig.attempt(**options())
    await anyio.wait_all_tasks_blocked()
    log.clear()
    gc.collect()
    assert seen[0]() is None
