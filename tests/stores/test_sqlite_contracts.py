"""The stores on SQLite keep the contracts that every store keeps."""

from __future__ import annotations

import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from capgate.stores import Store
from capgate.testing import approval_store_contract, idempotency_store_contract


@asynccontextmanager
async def opened():
    """A store on a file of its own."""
    with tempfile.TemporaryDirectory() as folder:
        async with Store(f"sqlite:///{Path(folder) / 'capgate.db'}") as store:
            yield store


@asynccontextmanager
async def approvals():
    """The approvals of such a store."""
    async with opened() as store:
        yield store.approvals


@asynccontextmanager
async def idempotency():
    """The keys of such a store."""
    async with opened() as store:
        yield store.idempotency


@pytest.mark.parametrize("check", approval_store_contract(approvals), ids=str)
async def test_approvals_on_sqlite_keep_the_contract(check):
    """SI-5: each promise of the contract holds on SQLite."""
    await check.run()


@pytest.mark.parametrize("check", idempotency_store_contract(idempotency), ids=str)
async def test_idempotency_on_sqlite_keeps_the_contract(check):
    """Each promise of the contract holds on SQLite."""
    await check.run()
