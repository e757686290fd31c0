"""An approval executes at most once, and says by whom."""

from __future__ import annotations

import anyio
import pytest

from capgate import Actor, ApprovalRule, Context, DomainError, Effect, Redact, Retry

DANA, MIA = Actor("u_dana"), Actor("u_mia")


async def test_an_approved_call_executes_as_a_new_execution_of_the_same_actor(world):
    """Same correlation id, new execution id, `ctx.approval` names the approvers (A 112, 130)."""
    seen = []

    async def act(ctx: Context) -> None:
        seen.append((ctx.execution_id, ctx.actor, ctx.correlation_id, ctx.approval))

    built = world().add(handler=act, approval=ApprovalRule())
    outcome = await built.call(correlation_id="cor")
    record = await built.engine.approvals.approve(outcome.approval.id, by=MIA)
    resumed = await built.resume(record)
    ((execution_id, actor, correlation_id, approval),) = seen
    assert resumed.execution_id == execution_id != outcome.execution_id
    assert (actor, correlation_id, approval.id) == (DANA, "cor", record.id)
    assert [each.by for each in approval.decisions] == [MIA]


async def test_the_story_of_an_approval(world):
    """Requested, decided and executed are three acts, told in order (reference A 112)."""
    built = world().add(approval=ApprovalRule())
    record = await built.granted(correlation_id="cor")
    await built.resume(record)
    assert built.told() == [
        "requested",
        "approval_requested",
        "approved",
        "requested",
        "started",
        "completed",
    ]
    (started,) = built.audit.of_type("capability.started")
    assert started.data["approval_id"] == record.id
    assert {event.correlation_id for event in built.audit.events} == {"cor"}


async def test_deciding_executes_nothing(world):
    """Requesting, deciding and executing are separate acts (reference A 100)."""
    built = world().add(approval=ApprovalRule())
    await built.granted()
    assert built.ran == []


async def test_a_second_resume_is_refused(world):
    """SI-5: APPROVAL_CONSUMED, and the record names the execution (reference A 113)."""
    built = world().add(approval=ApprovalRule())
    record = await built.granted()
    first = await built.resume(record)
    error = (await built.resume(record)).error
    assert (error.code, error.retryable) == ("APPROVAL_CONSUMED", False)
    assert built.ran == [1]
    assert (await built.engine.approvals.get(record.id)).consumed_by == first.execution_id


async def test_fifty_racing_resumes_run_the_handler_once(world):
    """SI-5: whoever loses is told so, and nothing else."""
    built = world().add(approval=ApprovalRule())
    record = await built.granted()
    outcomes = []

    async def race():
        outcomes.append(await built.resume(record))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(race)
    assert sorted(each.status for each in outcomes).count("completed") == 1
    assert {each.error.code for each in outcomes if each.status == "failed"} == {
        "APPROVAL_CONSUMED"
    }
    assert built.ran == [1]


async def test_racing_resumes_of_two_engines_on_one_store_run_once(world, store):
    """SI-5: whatever the number of processes (reference A 292)."""
    engines = [world(approvals=store).add(approval=ApprovalRule()) for _ in range(5)]
    record = await engines[0].granted()

    async with anyio.create_task_group() as group:
        for built in engines:
            for _ in range(10):
                group.start_soon(built.resume, record)
    assert sum(len(built.ran) for built in engines) == 1


async def test_racing_resumes_with_slow_rules_run_once(world):
    """SI-5: all pass every check before the first of them consumes."""
    arrived, gate = [], anyio.Event()

    async def rule(request):
        arrived.append(request)
        if len(arrived) > 1:
            await gate.wait()
        return True

    built = world().add(approval=ApprovalRule(), access=rule)
    record = await built.granted()
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(built.resume, record)
        with anyio.fail_after(5):
            while len(arrived) < 11:
                await anyio.lowlevel.checkpoint()
        gate.set()
    assert built.ran == [1]


class Harmless(DomainError):
    effect = Effect.NONE


@pytest.mark.parametrize("raised", [RuntimeError("x"), DomainError("x"), Harmless("x")])
async def test_a_handler_that_failed_has_spent_the_approval(world, raised):
    """SI-5: it was entered, so the yes is used up, whatever it raised."""

    async def act() -> None:
        raise raised

    built = world().add(handler=act, approval=ApprovalRule())
    record = await built.granted()
    assert (await built.resume(record)).error.code == "EXECUTION_FAILED"
    assert (await built.resume(record)).error.code == "APPROVAL_CONSUMED"


async def test_one_approval_covers_all_attempts(world):
    """Retries inside a resumed execution need no new approval (reference A 133)."""
    tries = []

    class Busy(DomainError):
        retryable = True

    async def act() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise Busy
        return len(tries)

    built = world(jitter=lambda: 0.0)
    built.add(handler=act, approval=ApprovalRule(), retry=Retry(3, backoff=0.001), idempotent=True)
    record = await built.granted()
    assert (await built.resume(record)).output == 3
    assert await built.status(record) == "consumed"


@pytest.mark.parametrize(
    ("verb", "code"), [("reject", "APPROVAL_REJECTED"), ("withdraw", "APPROVAL_CANCELLED")]
)
async def test_what_was_not_approved_does_not_run(world, verb, code):
    """Rejected or withdrawn, it says which (reference A 114)."""
    built = world().add(approval=ApprovalRule())
    record = await built.asked()
    by = MIA if verb == "reject" else DANA
    await getattr(built.engine.approvals, verb)(record.id, by=by)
    error = (await built.resume(record)).error
    assert (error.code, error.retryable) == (code, False)
    assert built.ran == []


async def test_a_pending_request_can_be_tried_later(world):
    """APPROVAL_PENDING is retryable: it could work once somebody has decided (A 114)."""
    built = world().add(approval=ApprovalRule())
    record = await built.asked()
    error = (await built.resume(record)).error
    assert (error.code, error.retryable) == ("APPROVAL_PENDING", True)
    await built.engine.approvals.approve(record.id, by=MIA)
    assert (await built.resume(record)).status == "completed"


async def test_resume_gives_the_output_or_raises(world):
    """`resume` is `attempt_resume` unwrapped."""
    built = world().add(approval=ApprovalRule())
    record = await built.granted({"n": 3})
    assert await built.engine.resume(record.id) == 3
    with pytest.raises(Exception, match="APPROVAL_CONSUMED"):
        await built.engine.resume(record.id)


async def test_redaction_and_output_contract_hold_on_resume(world):
    """It is the same path, not a second pipeline."""
    built = world().add(approval=ApprovalRule(), redact=Redact(output=lambda n: n + 1000))
    assert (await built.resume(await built.granted({"n": 3}))).output == 1003
