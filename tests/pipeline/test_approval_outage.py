"""A store that is down is an outage: never consumed, pending or missing; and nothing runs."""

from __future__ import annotations

import anyio
import pytest

from capgate import Actor, ApprovalConfig, ApprovalRule, CapabilityError, Limits, public_error
from capgate.approvals import ApprovalDecision

DANA, MIA = Actor("u_dana"), Actor("u_mia")
GENERIC = {"code": "INTERNAL_ERROR", "message": "The operation failed.", "retryable": False}


@pytest.fixture
def gated(world, store):
    return world(approvals=store, limits=Limits(policy_timeout=0.2)).add(approval=ApprovalRule())


def check_unavailable(error):
    assert (error.code, error.stage, error.retryable, error.exposed) == (
        "APPROVAL_UNAVAILABLE",
        "approval",
        True,
        False,
    )
    assert isinstance(error.__cause__, Exception)
    assert public_error(error) == GENERIC
    assert "canary" not in str(error)


@pytest.mark.parametrize("operation", ["get", "consume"])
async def test_an_outage_on_resume_is_unavailable(gated, store, operation):
    """Reference A 28, 126: it escaped, or was reported as APPROVAL_CONSUMED."""
    record = await gated.granted()
    store.fails.add(operation)
    error = (await gated.resume(record)).error
    check_unavailable(error)
    assert gated.told()[-1] == "failed"
    assert gated.ran == []


@pytest.mark.parametrize("operation", ["get", "consume"])
async def test_after_the_outage_it_can_be_resumed(gated, store, operation):
    """SI-5: retryable means that it could work later, and it does."""
    record = await gated.granted()
    store.fails.add(operation)
    await gated.resume(record)
    store.fails.clear()
    assert (await gated.resume(record)).output == 1
    assert gated.ran == [1]


async def test_a_lost_answer_of_the_consumption_is_taken_back(gated, store):
    """The store consumed but the answer got lost: released, so that a retry can work."""
    record = await gated.granted()
    store.loses.add("consume")
    check_unavailable((await gated.resume(record)).error)
    assert gated.ran == []
    store.loses.clear()
    assert await gated.status(record) == "approved"
    assert (await gated.resume(record)).output == 1


async def test_a_lost_answer_that_cannot_be_taken_back_is_not_retryable(gated, store):
    """It stays consumed, and the error says so."""
    record = await gated.granted()
    store.loses.add("consume")
    store.fails.add("release")
    error = (await gated.resume(record)).error
    assert (error.code, error.retryable) == ("APPROVAL_UNAVAILABLE", False)
    store.loses.clear()
    store.fails.clear()
    assert (await gated.resume(record)).error.code == "APPROVAL_CONSUMED"
    assert gated.ran == []


@pytest.mark.parametrize("verb", ["approve", "reject", "withdraw"])
@pytest.mark.parametrize("operation", ["get", "own"])
async def test_an_outage_while_deciding_is_unavailable(gated, store, verb, operation):
    """Never missing, never decided."""
    record = await gated.asked(actor=DANA)
    own = "withdraw" if verb == "withdraw" else "decide"
    store.fails.add(own if operation == "own" else operation)
    with pytest.raises(CapabilityError) as caught:
        await getattr(gated.engine.approvals, verb)(
            record.id, by=DANA if verb == "withdraw" else MIA
        )
    check_unavailable(caught.value)
    store.fails.clear()
    assert await gated.status(record) == "pending"


@pytest.mark.parametrize("operation", ["find", "expire_due"])
async def test_an_outage_while_looking_is_unavailable(gated, store, operation):
    """An empty list would be a lie."""
    store.fails.add(operation)
    with pytest.raises(CapabilityError) as caught:
        await gated.engine.approvals.find()
    check_unavailable(caught.value)


async def test_an_outage_at_the_gate_is_unavailable(gated, store):
    """Nothing runs without its request on record."""
    store.fails.add("create")
    check_unavailable((await gated.call()).error)
    assert gated.ran == []


@pytest.mark.parametrize("operation", ["create", "get", "consume"])
async def test_a_store_that_hangs_is_bounded(gated, store, operation):
    """SI-12: every operation has its limit."""
    record = await gated.granted()
    store.before[operation] = anyio.sleep_forever
    outcome = await (gated.call() if operation == "create" else gated.resume(record))
    check_unavailable(outcome.error)
    assert gated.ran == []


async def test_a_store_that_finds_nothing_is_believed(gated, store):
    """Missing is APPROVAL_NOT_FOUND: an answer, not an outage."""
    assert (await gated.engine.attempt_resume("apr_x")).error.code == "APPROVAL_NOT_FOUND"


async def test_an_outage_is_told_and_reported(gated, store):
    """The audit has the code; the operator has the cause."""
    record = await gated.granted()
    store.fails.add("get")
    await gated.resume(record)
    assert gated.last()["code"] == "APPROVAL_UNAVAILABLE"
    assert isinstance(gated.reported[-1].__cause__, ConnectionError)


async def test_an_outage_during_an_inline_answer_is_unavailable(world, store):
    """The request was stored, the yes was not: nothing runs."""

    async def handler(record):
        store.fails.add("decide")
        return ApprovalDecision(approved=True, by=MIA)

    built = world(approvals=ApprovalConfig(store, handler=handler)).add(approval=ApprovalRule())
    check_unavailable((await built.call()).error)
    assert built.ran == []
