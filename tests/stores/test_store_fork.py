"""A store that was in use when the process was forked."""

import asyncio
import multiprocessing
import sys

import anyio
import anyio.to_thread
import pytest

from capgate.testing.sample_approvals import sample


def child(store, queue) -> None:
    """Use the store in a child process."""

    async def find():
        with anyio.fail_after(20):
            return [record.id for record in await store.approvals.find()]

    queue.put(asyncio.run(find()))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking is the point
@pytest.mark.skipif(sys.platform == "win32", reason="no fork on Windows")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_forked_child_has_threads_and_connections_of_its_own(anyio_backend, store):
    """The child reads what the parent wrote, and the parent goes on."""
    await store.approvals.create(sample("apr_1"))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(store, queue))
    process.start()
    found = await anyio.to_thread.run_sync(lambda: queue.get(timeout=30))
    await anyio.to_thread.run_sync(process.join)
    assert found == ["apr_1"]
    await store.approvals.create(sample("apr_2"))
