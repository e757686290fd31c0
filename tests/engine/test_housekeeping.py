"""What an entered engine does beside its calls."""

from __future__ import annotations

import anyio
import pytest

from capgate import ApprovalConfig, ConfigurationError, Engine
from capgate.approvals import ApprovalStatus, MemoryApprovals
from capgate.testing import FakeClock
from capgate.testing.sample_approvals import EXPIRY, sample


class Passing(MemoryApprovals):
    """A store that tells when a pass over it has ended, and fails in the first ones."""

    def __init__(self, failures=0):
        super().__init__()
        self.passed = anyio.Event()
        self.failures = failures

    async def expire_due(self, now):
        """Fail, or do it and tell."""
        if self.failures:
            self.failures -= 1
            raise OSError("gone for a moment")
        found = await super().expire_due(now)
        self.passed.set()
        return found


@pytest.mark.parametrize("failures", [0, 2])
async def test_an_entered_engine_marks_what_has_lapsed(failures):
    """Also after passes in which the store was not there."""
    store = Passing(failures)
    await store.create(sample("apr_1"))
    config = ApprovalConfig(store, expire_every=0.001)
    async with Engine("test", approvals=config, clock=FakeClock(EXPIRY)):
        with anyio.fail_after(30):
            await store.passed.wait()
    (found,) = await store.find(ApprovalStatus.EXPIRED)
    assert found.id == "apr_1"


async def test_without_being_told_to_nothing_is_marked():
    """By default a lapsed request is marked when somebody looks."""
    store = Passing()
    await store.create(sample("apr_1"))
    async with Engine("test", approvals=ApprovalConfig(store), clock=FakeClock(EXPIRY)):
        await anyio.sleep(0.01)
    assert not store.passed.is_set()


@pytest.mark.parametrize("every", [0, -1, True, "1", float("nan"), float("inf")])
def test_a_wrong_pause_is_refused_at_once(every):
    """It says which setting is wrong."""
    with pytest.raises(ConfigurationError, match="expire_every"):
        ApprovalConfig(expire_every=every)
