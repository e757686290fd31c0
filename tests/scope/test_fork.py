"""A child process that was forked inside a running loop."""

import asyncio
import multiprocessing
import sys

import anyio
import pytest

from capgate import Engine

engine = Engine("forked")


@engine.capability("wait", access="public", timeout=0.05)
async def wait() -> None:
    """Wait."""
    await anyio.sleep_forever()


async def code() -> str:
    with anyio.fail_after(20):
        outcome = await engine.attempt(wait)
    return outcome.error.code.value


def child(queue) -> None:
    queue.put(asyncio.run(code()))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking is the point
@pytest.mark.skipif(sys.platform == "win32", reason="no fork on Windows")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_child_has_deadlines_of_its_own(anyio_backend):
    """A call in the child's own loop is interrupted by its deadline."""
    assert await code() == "TIMEOUT"
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    found = await anyio.to_thread.run_sync(lambda: queue.get(timeout=30))
    process.join(30)
    assert found == "TIMEOUT"
