"""Idempotency keys in memory keep the contract of every store."""

from __future__ import annotations

from datetime import timedelta

import pytest

from capgate.idempotency import Claimed, MemoryIdempotency
from capgate.testing.check import Check
from capgate.testing.contracts_idempotency import NOW, idempotency_store_contract


@pytest.mark.parametrize("check", idempotency_store_contract(MemoryIdempotency), ids=str)
async def test_memory_idempotency_keeps_the_contract(check: Check):
    """Each promise of the contract holds for the memory store."""
    await check.run()


async def test_expired_entries_leave_the_memory():
    """A store that is used for long does not grow with every key it has ever seen."""
    store = MemoryIdempotency()
    for n in range(100):
        now = NOW + timedelta(seconds=n)
        assert await store.begin(f"k{n}", "hash", "exe_1", now, timedelta(seconds=5)) == Claimed()
    assert len(store._entries) == 5


@pytest.mark.parametrize("ttl", [0, -1, True, float("inf"), float("nan"), "60"])
async def test_a_ttl_is_a_finite_duration_above_zero(ttl):
    """What is no duration is refused before anything is claimed."""
    store = MemoryIdempotency()
    with pytest.raises(TypeError):
        await store.begin("k", "hash", "exe_1", NOW, ttl)
    assert await store.begin("k", "hash", "exe_1", NOW, 1) == Claimed()
