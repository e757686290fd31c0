"""A store that was in use when the process was forked."""

import asyncio
import multiprocessing
import sys
import threading

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


def writing_child(store, queue) -> None:
    """Write through the store in a child process."""

    async def create():
        with anyio.fail_after(20):
            await store.approvals.create(sample("apr_child"))

    try:
        asyncio.run(create())
    except Exception as error:
        queue.put(repr(error))
    else:
        queue.put("written")


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # forking is the point
@pytest.mark.skipif(sys.platform == "win32", reason="no fork on Windows")
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_process_is_forked_between_transactions(anyio_backend, store):
    """A child does not inherit the locks of a transaction that nobody there would end."""
    entered, left = threading.Event(), threading.Event()

    def slow(db):
        db.execute("DELETE FROM capgate_idempotency")
        entered.set()
        left.wait(1)

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    async with anyio.create_task_group() as group:
        group.start_soon(store._database.transact, slow)
        await anyio.to_thread.run_sync(entered.wait)
        threading.Timer(0.2, left.set).start()
        process = context.Process(target=writing_child, args=(store, queue))
        process.start()
    assert await anyio.to_thread.run_sync(lambda: queue.get(timeout=30)) == "written"
    await anyio.to_thread.run_sync(process.join)
    assert await store.approvals.get("apr_child") == sample("apr_child")
