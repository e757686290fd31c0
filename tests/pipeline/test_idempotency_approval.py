"""A key on a call that needs approval: one request, one execution, one stored outcome."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRequired,
    ApprovalRule,
    Completed,
    Context,
    DomainError,
    Effect,
    policy,
    require_approval,
)
from capgate.approvals import ApprovalDecision
from capgate.idempotency import MemoryIdempotency

DANA, MIA = Actor("u_dana"), Actor("u_mia")


@pytest.fixture
def gated(world):
    return world().add(approval=ApprovalRule())


async def ask(built, input=None):
    outcome = await built.call(input, idempotency_key="k")
    assert isinstance(outcome, ApprovalRequired), outcome
    return outcome.approval


@pytest.mark.parametrize("approved", [False, True])
async def test_row_3_while_the_first_waits(gated, approved):
    """The same `ApprovalRequired`, no second request, before and after the yes."""
    record = await ask(gated)
    if approved:
        await gated.engine.approvals.approve(record.id, by=MIA)
    assert (await ask(gated)).id == record.id
    assert len(await gated.engine.approvals.find()) == 1
    assert gated.ran == []


async def test_row_3_a_repeat_ends_in_one_terminal_event(gated):
    """SI-12: exactly one per execution, here too."""
    record = await ask(gated)
    gated.audit.clear()
    await ask(gated)
    assert gated.told() == ["requested", "approval_requested"]
    assert gated.last()["approval_id"] == record.id


async def test_another_input_is_still_a_conflict(gated):
    """Row 2 holds while the first waits."""
    await ask(gated, {"n": 1})
    error = (await gated.call({"n": 2}, idempotency_key="k")).error
    assert (error.code, error.retryable) == ("IDEMPOTENCY_CONFLICT", False)


async def test_the_resumed_outcome_is_replayed(gated):
    """Row 4: the key belongs to the operation, not to the execution that asked."""
    record = await ask(gated, {"n": 3})
    await gated.engine.approvals.approve(record.id, by=MIA)
    first = await gated.resume(record)
    again = await gated.call({"n": 3}, idempotency_key="k")
    assert isinstance(again, Completed)
    assert (again.output, again.replayed, again.execution_id) == (3, True, first.execution_id)
    assert gated.ran == [3]


async def test_the_resumed_handler_sees_the_callers_key(world):
    """`ctx.idempotency_key` is the one the caller gave."""
    seen = []

    async def act(ctx: Context) -> None:
        seen.append(ctx.idempotency_key)

    built = world().add(handler=act, approval=ApprovalRule())
    record = await ask(built)
    await built.engine.approvals.approve(record.id, by=MIA)
    await built.resume(record)
    assert seen == ["k"]


@pytest.mark.parametrize("end", ["reject", "withdraw", "expire"])
async def test_an_approval_that_came_to_nothing_frees_the_key(gated, end):
    """Row 7: nothing happened, so a repeat asks anew."""
    record = await ask(gated)
    if end == "reject":
        await gated.engine.approvals.reject(record.id, by=MIA)
    elif end == "withdraw":
        await gated.engine.approvals.withdraw(record.id, by=DANA)
    else:
        gated.clock.advance(900)
    assert (await ask(gated)).id != record.id


@pytest.mark.parametrize("refusal", ["pending", "guard", "token"])
async def test_a_refused_resume_does_not_free_the_key(gated, refusal):
    """The request still waits: a repeat gets it, and no second one is made."""
    record = await ask(gated)
    options = {"guard": {"actor": MIA}, "token": {"timeout": 1e-9}}.get(refusal, {})
    if refusal == "token":
        await gated.engine.approvals.approve(record.id, by=MIA)
    assert (await gated.resume(record, **options)).status in {"failed", "cancelled"}
    assert (await ask(gated)).id == record.id


async def test_a_second_resume_does_not_disturb_the_outcome(gated):
    """APPROVAL_CONSUMED is the loser's own failure, not the operation's."""
    record = await ask(gated)
    await gated.engine.approvals.approve(record.id, by=MIA)
    await gated.resume(record)
    assert (await gated.resume(record)).error.code == "APPROVAL_CONSUMED"
    assert (await gated.call(idempotency_key="k")).replayed is True
    assert gated.ran == [1]


class Untouched(DomainError):
    effect = Effect.NONE


@pytest.mark.parametrize(("raised", "asks"), [(Untouched(), True), (RuntimeError(), False)])
async def test_a_resumed_failure_counts_by_its_effect(world, raised, asks):
    """Rows 5 and 7: without effect the key is free, else the failure is replayed."""

    async def act() -> None:
        raise raised

    built = world().add(handler=act, approval=ApprovalRule())
    record = await ask(built)
    await built.engine.approvals.approve(record.id, by=MIA)
    first = await built.resume(record)
    again = await built.call(idempotency_key="k")
    if asks:
        assert isinstance(again, ApprovalRequired)
        assert again.approval.id != record.id
    else:
        assert (again.error.code, again.effect) == (first.error.code, "unknown")


async def test_while_the_resumed_call_runs_a_repeat_is_told_to_wait(world):
    """Row 1 for an operation that runs under its approval."""
    go, started = anyio.Event(), anyio.Event()

    async def act() -> None:
        started.set()
        await go.wait()

    built = world().add(handler=act, approval=ApprovalRule())
    record = await ask(built)
    await built.engine.approvals.approve(record.id, by=MIA)
    async with anyio.create_task_group() as group:
        group.start_soon(built.resume, record)
        await started.wait()
        error = (await built.call(idempotency_key="k")).error
        go.set()
    assert (error.code, error.retryable) == ("IDEMPOTENCY_CONFLICT", True)
    assert (await built.call(idempotency_key="k")).replayed is True


async def test_it_all_holds_after_a_restart(world, store):
    """Request, decision, execution and repeat in four processes on one pair of stores."""
    keys = MemoryIdempotency()

    def restart():
        return world(approvals=store, idempotency=keys).add(approval=ApprovalRule())

    record = await ask(restart(), {"n": 3})
    assert (await ask(restart(), {"n": 3})).id == record.id
    await restart().engine.approvals.approve(record.id, by=MIA)
    assert (await restart().resume(record)).output == 3
    last = restart()
    assert (await last.call({"n": 3}, idempotency_key="k")).replayed is True
    assert last.ran == []


async def test_an_inline_yes_completes_the_key(world):
    """Answered within the call: one call, one outcome."""

    async def handler(record):
        return ApprovalDecision(approved=True, by=MIA)

    built = world(approvals=ApprovalConfig(handler=handler)).add(approval=ApprovalRule())
    assert (await built.call(idempotency_key="k")).output == 1
    assert (await built.call(idempotency_key="k")).replayed is True
    assert built.ran == [1]


async def test_an_inline_no_frees_the_key(world):
    """Nothing happened."""
    answers = [False, True]

    async def handler(record):
        return ApprovalDecision(approved=answers.pop(0), by=MIA)

    built = world(approvals=ApprovalConfig(handler=handler)).add(approval=ApprovalRule())
    assert (await built.call(idempotency_key="k")).error.code == "APPROVAL_REJECTED"
    assert (await built.call(idempotency_key="k")).output == 1


async def test_a_store_outage_at_the_gate_frees_the_key(world, store):
    """No request was made, so none is waited for."""
    store.fails.add("create")
    built = world(approvals=store).add(approval=ApprovalRule())
    assert (await built.call(idempotency_key="k")).error.code == "APPROVAL_UNAVAILABLE"
    store.fails.clear()
    assert isinstance(await built.call(idempotency_key="k"), ApprovalRequired)


async def test_a_second_sign_off_is_what_a_repeat_waits_for(world):
    """SI-5: one key, one operation, although it took two approvals."""
    second = policy("late", phases={"execution"})(lambda r: require_approval("Why.", type="cfo"))
    built = world(policies=[second]).add(approval=ApprovalRule("manager"))
    first = await ask(built)
    await built.engine.approvals.approve(first.id, by=MIA)
    late = (await built.resume(first)).approval
    assert isinstance(await built.call(idempotency_key="k"), ApprovalRequired)
    await built.engine.approvals.approve(late.id, by=MIA)
    assert (await built.resume(late)).output == 1
    assert (await built.call(idempotency_key="k")).replayed is True
    assert built.ran == [1]


async def test_an_expired_first_approval_does_not_let_a_repeat_run_beside_the_second(world):
    """SI-5: the operation waits for its second sign-off: no third request under the same key."""
    terms = require_approval("Why.", type="cfo", expires_in=3600)
    second = policy("late", phases={"execution"})(lambda r: terms)
    built = world(policies=[second]).add(approval=ApprovalRule("manager", expires_in=60))
    first = await ask(built)
    await built.engine.approvals.approve(first.id, by=MIA)
    late = (await built.resume(first)).approval
    built.clock.advance(60)
    assert (await ask(built)).id == late.id


async def test_two_racing_calls_under_one_key_make_one_request(world):
    """One is the first, the others wait with it or are told to come back."""
    built = world(policies=[policy("ask")(lambda r: require_approval("Why."))]).add()
    outcomes = []

    async def race():
        outcomes.append(await built.call(idempotency_key="k"))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(race)
    assert len(await built.engine.approvals.find()) == 1
    assert {each.status for each in outcomes} <= {"approval-required", "failed"}
