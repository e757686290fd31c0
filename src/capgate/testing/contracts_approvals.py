"""The contract of every `ApprovalStore`: states and times; with `approval_store_contract`.

What is kept without loss is in `contracts_approvals_kept`, races in `contracts_approvals_raced`.
"""

from __future__ import annotations

from datetime import timedelta

from capgate.approvals import ApprovalStatus, ApprovalStore
from capgate.call import Actor
from capgate.errors import ErrorCode
from capgate.testing.check import Check, Factory, checks, expect, expect_refusal
from capgate.testing.contracts_approvals_kept import KEPT
from capgate.testing.contracts_approvals_raced import RACED
from capgate.testing.sample_approvals import EXPIRY, NOW, TICK, no, open_record, sample, yes

ID = "apr_1"


def approval_store_contract(factory: Factory[ApprovalStore]) -> list[Check]:
    """Return the checks that every approval store passes.

    Use: `@pytest.mark.parametrize("check", approval_store_contract(MyStore), ids=str)` and
    `await check.run()`.

    Args:
        factory: Called once a check; returns an empty store, an awaitable of one, or an async
            context manager that opens and closes one.
    """
    return checks(factory, (*KEPT, *_STATES, *RACED))


async def says_whether_it_is_durable(store: ApprovalStore) -> None:
    """`durable` is a bool."""
    expect(store.durable in {True, False}, "durable is True or False")


async def approves(store: ApprovalStore) -> None:
    """An approval is recorded and turns the record approved."""
    await store.create(sample(ID))
    answered = await store.decide(ID, yes("mia", comment="fine"), NOW)
    expect(answered.status is ApprovalStatus.APPROVED, "approved")
    expect(answered.decisions == (yes("mia", comment="fine"),), "the decision is recorded")
    expect(await store.get(ID) == answered, "what was answered is what is stored")


async def rejects(store: ApprovalStore) -> None:
    """A rejection is recorded and ends the record."""
    await store.create(sample(ID))
    answered = await store.decide(ID, no("mia"), NOW)
    expect(answered.status is ApprovalStatus.REJECTED, "rejected")
    expect(await store.get(ID) == answered, "what was answered is what is stored")


async def knows_no_unknown_id(store: ApprovalStore) -> None:
    """Every change of an unknown id is APPROVAL_NOT_FOUND."""
    unknown = ErrorCode.APPROVAL_NOT_FOUND
    await expect_refusal(unknown, store.decide(ID, yes("mia"), NOW))
    await expect_refusal(unknown, store.consume(ID, "exe_1", NOW))
    await expect_refusal(unknown, store.release(ID, "exe_1"))
    await expect_refusal(unknown, store.withdraw(ID, NOW))


async def decides_once(store: ApprovalStore) -> None:
    """A decided record takes no further decision and stays as it was."""
    await store.create(sample(ID))
    before = await store.decide(ID, no("mia"), NOW)
    await expect_refusal(ErrorCode.APPROVAL_NOT_PENDING, store.decide(ID, yes("max"), NOW))
    expect(await store.get(ID) == before, "a refused decision changes nothing")


async def decides_until_one_tick_before_expiry(store: ApprovalStore) -> None:
    """`now >= expires_at` is expired, to the microsecond."""
    for name, now in (("apr_at", EXPIRY), ("apr_after", EXPIRY + TICK)):
        await store.create(sample(name))
        await expect_refusal(ErrorCode.APPROVAL_EXPIRED, store.decide(name, yes("mia"), now))
    await store.create(sample(ID))
    answered = await store.decide(ID, yes("mia"), EXPIRY - TICK)
    expect(answered.status is ApprovalStatus.APPROVED, "one tick before is in time")


async def consumes_until_one_tick_before_expiry(store: ApprovalStore) -> None:
    """An approved record expires too."""
    for name, now in (("apr_at", EXPIRY), ("apr_after", EXPIRY + TICK)):
        await open_record(store, name, yes("mia"))
        await expect_refusal(ErrorCode.APPROVAL_EXPIRED, store.consume(name, "exe_1", now))
    await open_record(store, ID, yes("mia"))
    spent = await store.consume(ID, "exe_1", EXPIRY - TICK)
    expect(spent.status is ApprovalStatus.CONSUMED, "one tick before is in time")


async def withdraws_until_one_tick_before_expiry(store: ApprovalStore) -> None:
    """What has expired cannot be taken back."""
    for name, now in (("apr_at", EXPIRY), ("apr_after", EXPIRY + TICK)):
        await store.create(sample(name))
        await expect_refusal(ErrorCode.APPROVAL_EXPIRED, store.withdraw(name, now))
    await store.create(sample(ID))
    taken = await store.withdraw(ID, EXPIRY - TICK)
    expect(taken.status is ApprovalStatus.CANCELLED, "one tick before is in time")


async def a_pending_record_past_expiry_is_expired_for_resume(store: ApprovalStore) -> None:
    """Expiry is looked at before pending: it must not be pending for ever."""
    await store.create(sample(ID))
    await expect_refusal(ErrorCode.APPROVAL_EXPIRED, store.consume(ID, "exe_1", EXPIRY))


async def a_quorum_needs_distinct_approvers(store: ApprovalStore) -> None:
    """The record is approved with the n-th approver, by kind and id, and not before."""
    await store.create(sample(ID, quorum=2))
    first = await store.decide(ID, yes("mia"), NOW)
    expect(first.status is ApprovalStatus.PENDING, "one of two is not enough")
    await expect_refusal(ErrorCode.APPROVAL_NOT_PENDING, store.decide(ID, yes("mia"), NOW))
    second = await store.decide(ID, yes("mia", kind="service"), NOW)
    expect(second.status is ApprovalStatus.APPROVED, "another kind is another approver")
    expect(len(second.decisions) == second.quorum, "a refused decision is not recorded")


async def one_rejection_ends_a_quorum(store: ApprovalStore) -> None:
    """An approver who has approved may still say no."""
    await store.create(sample(ID, quorum=3))
    await store.decide(ID, yes("mia"), NOW)
    ended = await store.decide(ID, no("mia"), NOW)
    expect(ended.status is ApprovalStatus.REJECTED, "one rejection ends it")


async def consumes_only_what_is_approved(store: ApprovalStore) -> None:
    """Every other status has its own refusal, and nothing changes."""
    await store.create(sample("apr_pending"))
    await expect_refusal(ErrorCode.APPROVAL_PENDING, store.consume("apr_pending", "exe_1", NOW))
    await open_record(store, "apr_no", no("mia"))
    await expect_refusal(ErrorCode.APPROVAL_REJECTED, store.consume("apr_no", "exe_1", NOW))
    await store.create(sample("apr_gone"))
    await store.withdraw("apr_gone", NOW)
    await expect_refusal(ErrorCode.APPROVAL_CANCELLED, store.consume("apr_gone", "exe_1", NOW))


async def consumes_once(store: ApprovalStore) -> None:
    """A spent record names its execution and is spent for all, that execution included."""
    await open_record(store, ID, yes("mia"))
    spent = await store.consume(ID, "exe_1", NOW)
    expect(spent.consumed_by == "exe_1", "consumed by that execution")
    for execution_id in ("exe_1", "exe_2"):
        await expect_refusal(ErrorCode.APPROVAL_CONSUMED, store.consume(ID, execution_id, NOW))
    expect(await store.get(ID) == spent, "a refused consumption changes nothing")


async def releases_only_to_its_holder(store: ApprovalStore) -> None:
    """Another execution cannot release; the holder can, and it may be spent again."""
    before = await open_record(store, ID, yes("mia"))
    await store.consume(ID, "exe_1", NOW)
    await expect_refusal(ErrorCode.APPROVAL_CONSUMED, store.release(ID, "exe_2"))
    expect(await store.release(ID, "exe_1") == before, "as it was before")
    await expect_refusal(ErrorCode.APPROVAL_CONSUMED, store.release(ID, "exe_1"))
    again = await store.consume(ID, "exe_2", NOW)
    expect(again.consumed_by == "exe_2", "spent by another execution")


async def withdraws_only_what_is_pending(store: ApprovalStore) -> None:
    """What was answered, withdrawn or spent cannot be taken back."""
    await store.create(sample(ID))
    taken = await store.withdraw(ID, NOW)
    expect(await store.get(ID) == taken, "what was answered is what is stored")
    await open_record(store, "apr_yes", yes("mia"))
    for name in (ID, "apr_yes"):
        await expect_refusal(ErrorCode.APPROVAL_NOT_PENDING, store.withdraw(name, NOW))
    await expect_refusal(ErrorCode.APPROVAL_NOT_PENDING, store.decide(ID, yes("mia"), NOW))


async def expires_what_is_due(store: ApprovalStore) -> None:
    """Pending and approved records past expiry turn expired, at the tick; nothing else does."""
    await store.create(sample("apr_pending"))
    await open_record(store, "apr_yes", yes("mia"))
    await open_record(store, "apr_no", no("mia"))
    await open_record(store, "apr_spent", yes("mia"))
    await store.consume("apr_spent", "exe_1", NOW)
    await store.create(sample("apr_later", expires_at=EXPIRY + timedelta(hours=1)))
    expect(await store.expire_due(EXPIRY - TICK) == 0, "nothing is due one tick before")
    due = {"apr_pending", "apr_yes"}
    expect(await store.expire_due(EXPIRY) == len(due), "two are due at the tick")
    expect(await store.expire_due(EXPIRY) == 0, "each is counted once")
    found = {record.id for record in await store.find(ApprovalStatus.EXPIRED)}
    expect(found == due, "only open records expire")


async def expires_what_was_released_late(store: ApprovalStore) -> None:
    """A record that was spent at its expiry expires once it is released."""
    await open_record(store, ID, yes("mia"))
    await store.consume(ID, "exe_1", NOW)
    expect(await store.expire_due(EXPIRY) == 0, "a spent record does not expire")
    await store.release(ID, "exe_1")
    await expect_refusal(ErrorCode.APPROVAL_EXPIRED, store.consume(ID, "exe_2", EXPIRY))
    expect(await store.expire_due(EXPIRY) == 1, "a released record does")


async def approvers_are_recorded_in_full(store: ApprovalStore) -> None:
    """Who approved comes back with everything that was known of them."""
    approver = Actor("mia", display_name="Mia", permissions={"a", "b"}, attributes={"n": [1]})
    await store.create(sample(ID))
    answered = await store.decide(ID, yes(approver), NOW)
    by = answered.decisions[0].by
    expect(by.permissions == approver.permissions, "permissions")
    expect(dict(by.attributes) == dict(approver.attributes), "attributes")
    expect(by.display_name == approver.display_name, "display name")


_STATES = (
    says_whether_it_is_durable,
    approves,
    rejects,
    knows_no_unknown_id,
    decides_once,
    decides_until_one_tick_before_expiry,
    consumes_until_one_tick_before_expiry,
    withdraws_until_one_tick_before_expiry,
    a_pending_record_past_expiry_is_expired_for_resume,
    a_quorum_needs_distinct_approvers,
    one_rejection_ends_a_quorum,
    consumes_only_what_is_approved,
    consumes_once,
    releases_only_to_its_holder,
    withdraws_only_what_is_pending,
    expires_what_is_due,
    expires_what_was_released_late,
    approvers_are_recorded_in_full,
)
