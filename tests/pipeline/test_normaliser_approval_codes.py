"""Codes of approvals, produced end to end through `attempt`, `resume` and the deciding methods."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest
from pydantic import PlainSerializer

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    CapabilityError,
    Engine,
    public_error,
    requires,
)
from capgate.approvals import ApprovalDecision, ApprovalRecord, MemoryApprovals
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
BOSS = Actor("u_boss")


class FakeClock:
    def __init__(self):
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.time


class DeadStore(MemoryApprovals):
    async def create(self, record):
        raise OSError("secret")


class AlteringStore(MemoryApprovals):
    """Gives records back with another input than was stored, once `on`."""

    on = False

    async def get(self, id):
        record = await super().get(id)
        if record is None or not self.on:
            return record
        return ApprovalRecord.from_dict(record.to_dict() | {"input": {"n": 2}})


def world(approvals=None, **rule):
    """Build an engine with one gated capability; its audit and clock."""
    audit, clock = MemoryAudit(), FakeClock()
    engine = Engine(
        "test", approvals=approvals, audit=audit, clock=clock, on_internal_error=lambda _: None
    )

    @engine.capability("cap", approval=ApprovalRule(**rule))
    async def cap(n: int) -> int:
        """Give back."""
        return n

    return engine, audit, clock


async def ask(engine):
    """Suspend a call; returns its approval's id."""
    return (await engine.attempt("cap", {"n": 1}, actor=DANA)).approval.id


async def resumed(change, **options):
    """Let something happen to an approval, then resume it."""
    engine, audit, clock = world()
    asked = await ask(engine)
    await change(engine, asked, clock)
    return await engine.attempt_resume(asked, **options), audit


async def nothing(engine, id, clock): ...


async def approve(engine, id, clock):
    await engine.approvals.approve(id, by=BOSS)


async def reject(engine, id, clock):
    await engine.approvals.reject(id, by=BOSS)


async def withdraw(engine, id, clock):
    await engine.approvals.withdraw(id, by=DANA)


async def expire(engine, id, clock):
    clock.time += timedelta(hours=1)


async def approve_and_expire(engine, id, clock):
    await approve(engine, id, clock)
    await expire(engine, id, clock)


async def use(engine, id, clock):
    await approve(engine, id, clock)
    await engine.resume(id)


async def unknown():
    engine, audit, _ = world()
    return await engine.attempt_resume("apr_none"), audit


async def altered():
    store = AlteringStore()
    engine, audit, clock = world(store)
    asked = await ask(engine)
    await approve(engine, asked, clock)
    store.on = True
    return await engine.attempt_resume(asked), audit


async def outage():
    engine, audit, _ = world(DeadStore())
    return await engine.attempt("cap", {"n": 1}, actor=DANA), audit


async def inline(approved, by):
    async def decide(record):
        return ApprovalDecision(approved, by)

    engine, audit, _ = world(ApprovalConfig(handler=decide))
    return await engine.attempt("cap", {"n": 1}, actor=DANA), audit


async def unserialisable():
    engine, audit, _ = world()

    @engine.capability("odd", approval=ApprovalRule())
    async def odd(n: Annotated[int, PlainSerializer(lambda value: "secret")]) -> int:
        """Take a number that is written as something else."""
        return n

    return await engine.attempt("odd", {"n": 1}, actor=DANA), audit


RESUMED = [
    (lambda: resumed(nothing), "APPROVAL_PENDING", (True, True), "FORBIDDEN", None),
    (lambda: resumed(reject), "APPROVAL_REJECTED", (False, True), "FORBIDDEN", None),
    (lambda: resumed(withdraw), "APPROVAL_CANCELLED", (False, True), "FORBIDDEN", None),
    (lambda: resumed(expire), "APPROVAL_EXPIRED", (False, True), "FORBIDDEN", None),
    (lambda: resumed(approve_and_expire), "APPROVAL_EXPIRED", (False, True), "FORBIDDEN", None),
    (lambda: resumed(use), "APPROVAL_CONSUMED", (False, True), "FORBIDDEN", None),
    (unknown, "APPROVAL_NOT_FOUND", (False, True), "CAPABILITY_NOT_FOUND", "approval-unknown"),
    (
        lambda: resumed(approve, actor=BOSS),
        "APPROVAL_NOT_FOUND",
        (False, True),
        "CAPABILITY_NOT_FOUND",
        "resume-mismatch",
    ),
    (
        lambda: resumed(approve, expected_surface="http"),
        "APPROVAL_NOT_FOUND",
        (False, True),
        "CAPABILITY_NOT_FOUND",
        "resume-mismatch",
    ),
    (altered, "APPROVAL_INPUT_MISMATCH", (False, False), "EXECUTION_FAILED", None),
    (
        unserialisable,
        "APPROVAL_UNSERIALIZABLE_INPUT",
        (False, False),
        "EXECUTION_FAILED",
        None,
    ),
    (outage, "APPROVAL_UNAVAILABLE", (True, False), "EXECUTION_FAILED", None),
    (lambda: inline(False, BOSS), "APPROVAL_REJECTED", (False, True), "FORBIDDEN", None),
    (lambda: inline(True, DANA), "APPROVAL_SELF_APPROVAL", (False, True), "FORBIDDEN", None),
]


@pytest.mark.parametrize(("scenario", "code", "flags", "category", "reason"), RESUMED)
async def test_each_approval_code_has_its_facts(scenario, code, flags, category, reason):
    """An approval that cannot be used fails at stage approval, effect none, with its own code."""
    outcome, audit = await scenario()
    error, last = outcome.error, audit.events[-1]
    assert (error.code, error.stage, error.category) == (code, "approval", category)
    assert (error.retryable, error.exposed) == flags
    assert outcome.effect == "none"
    expected = "capability.failed" if reason is None else "capability.denied"
    assert (last.type, last.execution_id) == (expected, outcome.execution_id)
    if reason is not None:
        assert last.data["reason"] == reason


async def test_unknown_and_mismatching_approvals_look_the_same():
    """An unknown approval and one of somebody else are byte-identical outside (SI-8)."""
    replies = [
        public_error((await unknown())[0].error),
        public_error((await resumed(approve, actor=BOSS))[0].error),
        public_error((await resumed(approve, expected_surface="http"))[0].error),
    ]
    assert replies[0] == replies[1] == replies[2]
    assert replies[0]["code"] == "APPROVAL_NOT_FOUND"


DECIDING = [
    (nothing, "approve", {"by": DANA}, "APPROVAL_SELF_APPROVAL"),
    (use, "approve", {"by": BOSS}, "APPROVAL_NOT_PENDING"),
    (reject, "approve", {"by": BOSS}, "APPROVAL_NOT_PENDING"),
    (reject, "withdraw", {"by": DANA}, "APPROVAL_NOT_PENDING"),
    (expire, "approve", {"by": BOSS}, "APPROVAL_EXPIRED"),
    (nothing, "withdraw", {"by": BOSS}, "APPROVAL_NOT_FOUND"),
    (nothing, "approve", {"by": Actor.anonymous()}, "FORBIDDEN"),
    (nothing, "reject", {"by": Actor("bot", "service")}, "FORBIDDEN"),
]


@pytest.mark.parametrize(("change", "verb", "options", "code"), DECIDING)
async def test_deciding_fails_with_its_code(change, verb, options, code):
    """Who may not decide, or decides too late, gets the code that says so."""
    engine, _, clock = world()
    asked = await ask(engine)
    await change(engine, asked, clock)
    with pytest.raises(CapabilityError) as caught:
        await getattr(engine.approvals, verb)(asked, **options)
    assert caught.value.code == code
    stage = "authorization" if code == "FORBIDDEN" else "approval"
    assert (caught.value.stage, caught.value.effect) == (stage, "none")


async def test_an_approver_must_be_entitled():
    """An approver who fails the rule gets FORBIDDEN, and the request stays decidable (SI-4)."""
    engine, _, _ = world(approvers=requires("orders:approve"))
    asked = await ask(engine)
    with pytest.raises(CapabilityError, match="FORBIDDEN"):
        await engine.approvals.approve(asked, by=BOSS)
    allowed = Actor("u_chief", permissions={"orders:approve"})
    assert (await engine.approvals.approve(asked, by=allowed)).status == "approved"


async def test_a_suspended_call_unwraps_to_approval_required():
    """`unwrap()` and `invoke` raise APPROVAL_REQUIRED with the approval's id on the error."""
    engine, _, _ = world()
    outcome = await engine.attempt("cap", {"n": 1}, actor=DANA)
    with pytest.raises(CapabilityError) as caught:
        outcome.unwrap()
    error = caught.value
    assert (error.code, error.stage, error.exposed) == ("APPROVAL_REQUIRED", "approval", True)
    assert (error.approval_id, error.execution_id) == (outcome.approval.id, outcome.execution_id)
    with pytest.raises(CapabilityError, match="APPROVAL_REQUIRED"):
        await engine.invoke("cap", {"n": 1}, actor=DANA)
