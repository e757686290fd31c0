"""Approvals in memory keep the contract of every store."""

from __future__ import annotations

import anyio
import anyio.to_thread
import pytest

from capgate.approvals import MemoryApprovals
from capgate.errors import CapabilityError
from capgate.testing.check import Check
from capgate.testing.contracts_approvals import approval_store_contract
from capgate.testing.sample_approvals import NOW, open_record, sample, yes


@pytest.mark.parametrize("check", approval_store_contract(MemoryApprovals), ids=str)
async def test_memory_approvals_keep_the_contract(check: Check):
    """Each promise of the contract holds for the memory store."""
    await check.run()


async def test_threads_race_for_one_approval_and_one_wins():
    """SI-5: an approval is spent once, even when event loops in several threads race."""
    store = MemoryApprovals()
    await open_record(store, "apr_1", yes("mia"))
    won = []

    async def consume(name: str) -> None:
        try:
            won.append(await store.consume("apr_1", name, NOW))
        except CapabilityError:
            return

    async with anyio.create_task_group() as group:
        for n in range(16):
            group.start_soon(anyio.to_thread.run_sync, anyio.run, consume, f"exe_{n}")
    assert len(won) == 1


async def test_a_page_of_a_large_store_copies_only_itself():
    """Finding a page does not touch the records that are not on it."""
    store = MemoryApprovals()
    for n in range(2_000):
        await store.create(sample(f"apr_{n}", capability_id=f"c{n % 2}"))
    page = await store.find(capability_id="c1", limit=3, after="apr_1000")
    assert [record.id for record in page] == ["apr_1001", "apr_1003", "apr_1005"]
