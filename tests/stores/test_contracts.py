"""The stores keep the contracts that every store keeps, on each kind of database."""

from __future__ import annotations

import pytest

from capgate.testing import approval_store_contract, idempotency_store_contract


def names(contract):
    """The names of a contract's checks."""
    return [check.name for check in contract(dict)]


async def run(contract, name, store):
    """Run one check of a contract on a store."""
    (check,) = [each for each in contract(lambda: store) if each.name == name]
    await check.run()


@pytest.mark.parametrize("name", names(approval_store_contract))
async def test_approvals_keep_the_contract(store, name):
    """SI-5: each promise of the contract holds in a database."""
    await run(approval_store_contract, name, store.approvals)


@pytest.mark.parametrize("name", names(idempotency_store_contract))
async def test_idempotency_keeps_the_contract(store, name):
    """Each promise of the contract holds in a database."""
    await run(idempotency_store_contract, name, store.idempotency)
