"""The contract of every `ApprovalStore`: one winner, however many race."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from capgate.approvals import ApprovalStatus
from capgate.errors import ErrorCode
from capgate.testing.check import codes, expect, race, winners
from capgate.testing.sample_approvals import EXPIRY, NOW, TICK, no, open_record, sample, yes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from capgate.approvals import ApprovalStore

RACERS: Final = 50
ID: Final = "apr_1"


async def many_decide_one_wins(store: ApprovalStore) -> None:
    """Of many decisions, for and against, one is recorded."""
    await store.create(sample(ID))
    answers = [yes(f"u{n}") if n % 2 else no(f"u{n}") for n in range(RACERS)]
    ended = await race([partial(store.decide, ID, answer, NOW) for answer in answers])
    (won,) = winners(ended)
    expect(codes(ended) == {ErrorCode.APPROVAL_NOT_PENDING}, "the others come too late")
    expect(await store.get(ID) == won and len(won.decisions) == 1, "one decision is stored")


async def many_make_a_quorum_and_no_more(store: ApprovalStore) -> None:
    """With a quorum of ten exactly ten distinct approvals are recorded."""
    await store.create(sample(ID, quorum=10))
    ended = await race([partial(store.decide, ID, yes(f"u{n}"), NOW) for n in range(RACERS)])
    record = await store.get(ID)
    expect(len(winners(ended)) == 10, "ten are accepted")  # noqa: PLR2004  the quorum above
    expect(codes(ended) == {ErrorCode.APPROVAL_NOT_PENDING}, "the others come too late")
    expect(record and record.status is ApprovalStatus.APPROVED, "and approve it")
    expect(record and len(record.approvers()) == record.quorum, "each counted once")


async def one_approver_is_no_quorum(store: ApprovalStore) -> None:
    """The same approver many times at once counts once."""
    await store.create(sample(ID, quorum=2))
    ended = await race([partial(store.decide, ID, yes("mia"), NOW)] * RACERS)
    (counted,) = winners(ended)
    expect(counted.status is ApprovalStatus.PENDING, "one approver is not two")


async def many_consume_one_wins(store: ApprovalStore) -> None:
    """An approval is spent at most once, however many executions race."""
    await open_record(store, ID, yes("mia"))
    ended = await race([partial(store.consume, ID, f"exe_{n}", NOW) for n in range(RACERS)])
    (won,) = winners(ended)
    expect(codes(ended) == {ErrorCode.APPROVAL_CONSUMED}, "the others find it spent")
    expect(await store.get(ID) == won, "the stored record names the winner")


async def consuming_and_withdrawing_never_both(store: ApprovalStore) -> None:
    """What is approved is consumed, never withdrawn, whoever comes first."""
    await open_record(store, ID, yes("mia"))
    ended = await race(
        [partial(store.withdraw, ID, NOW), partial(store.consume, ID, "exe_1", NOW)] * 5
    )
    (won,) = winners(ended)
    expect(won.status is ApprovalStatus.CONSUMED, "the execution wins")


async def approving_and_withdrawing_never_both(store: ApprovalStore) -> None:
    """A pending record is either decided or withdrawn."""
    await store.create(sample(ID))
    ended = await race(
        [partial(store.decide, ID, yes("mia"), NOW), partial(store.withdraw, ID, NOW)] * 5
    )
    (won,) = winners(ended)
    expect(await store.get(ID) == won, "the stored record is the winner's")


async def many_release_one_wins(store: ApprovalStore) -> None:
    """A spent record is given back once, and spent once again."""
    await open_record(store, ID, yes("mia"))
    await store.consume(ID, "exe_1", NOW)
    expect(len(winners(await race([partial(store.release, ID, "exe_1")] * RACERS))) == 1, "once")
    again = await race([partial(store.consume, ID, f"exe_{n}", NOW) for n in range(RACERS)])
    expect(len(winners(again)) == 1, "spent once again")


async def consuming_and_expiring_never_both(store: ApprovalStore) -> None:
    """An approval that is spent in its last tick is not expired as well."""
    await open_record(store, ID, yes("mia"))

    async def expire() -> bool:
        return await store.expire_due(EXPIRY) == 1

    async def consume() -> bool:
        return bool(await store.consume(ID, "exe_1", EXPIRY - TICK))

    ended = await race([expire, consume] * 5)
    record = await store.get(ID)
    final = {ApprovalStatus.CONSUMED, ApprovalStatus.EXPIRED}
    expect(ended.count(True) == 1, "one of them ends it")
    expect(record is not None and record.status in final, "and the record says which")


async def deciding_and_expiring_never_both(store: ApprovalStore) -> None:
    """A request that is rejected in its last tick is not expired as well."""
    await store.create(sample(ID))

    async def expire() -> bool:
        return await store.expire_due(EXPIRY) == 1

    async def reject() -> bool:
        return bool(await store.decide(ID, no("mia"), EXPIRY - TICK))

    ended = await race([expire, reject] * 5)
    record = await store.get(ID)
    final = {ApprovalStatus.REJECTED, ApprovalStatus.EXPIRED}
    expect(ended.count(True) == 1, "one of them ends it")
    expect(record is not None and record.status in final, "and the record says which")


RACED: Final[tuple[Callable[[ApprovalStore], Awaitable[None]], ...]] = (
    many_decide_one_wins,
    many_make_a_quorum_and_no_more,
    one_approver_is_no_quorum,
    many_consume_one_wins,
    consuming_and_withdrawing_never_both,
    approving_and_withdrawing_never_both,
    many_release_one_wins,
    consuming_and_expiring_never_both,
    deciding_and_expiring_never_both,
)
