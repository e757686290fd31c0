"""`engine.approvals`: who may decide, through the engine, and across restarts."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    CapabilityError,
    Engine,
    Limits,
    policy,
    require_approval,
    requires,
)
from capgate.approvals import MemoryApprovals
from capgate.audit import MemoryAudit

DANA, MIA, MAX = Actor("u_dana"), Actor("u_mia"), Actor("u_max")
BOSS = Actor("u_boss", permissions={"manager"})


def managers(request):
    """A rule that its module holds under its own name."""
    return "manager" in request.actor.permissions


class Office:
    """An engine with one gated capability; several may share a store."""

    def __init__(self, rule=None, *, store=None, policies=(), keys=(), **settings) -> None:
        self.audit = MemoryAudit()
        self.engine = Engine(
            "test",
            audit=self.audit,
            policies=policies,
            approvals=ApprovalConfig(store or MemoryApprovals(), keys=keys),
            on_internal_error=lambda error: None,
            **settings,
        )
        self.desk = self.engine.approvals

        @self.engine.capability("act", approval=rule)
        async def act(n: int = 1) -> int:
            """Act."""
            return n

    async def ask(self, **options):
        return (await self.engine.attempt("act", **{"actor": DANA, **options})).approval

    async def refusal(self, verb, record, by):
        with pytest.raises(CapabilityError) as caught:
            await getattr(self.desk, verb)(record.id, by=by)
        return caught.value


@pytest.mark.parametrize("verb", ["approve", "reject"])
@pytest.mark.parametrize(
    ("by", "code"),
    [
        (DANA, "APPROVAL_SELF_APPROVAL"),
        (Actor("u_dana", permissions={"manager"}), "APPROVAL_SELF_APPROVAL"),
        (Actor.anonymous(), "FORBIDDEN"),
        (Actor("bot", "service"), "FORBIDDEN"),
        (Actor("bot", "automation"), "FORBIDDEN"),
        ("u_mia", "UNAUTHENTICATED"),
        (None, "UNAUTHENTICATED"),
    ],
    ids=["self", "self-with-power", "anonymous", "service", "automation", "text", "none"],
)
async def test_who_may_not_decide(verb, by, code):
    """SI-4: the request stays pending and decidable by others (reference A 106, 108)."""
    office = Office(ApprovalRule())
    record = await office.ask()
    assert (await office.refusal(verb, record, by)).code == code
    assert (await office.desk.get(record.id)).status == "pending"
    assert (await office.desk.approve(record.id, by=MIA)).status == "approved"


async def test_an_entitled_kind_may_be_named_by_a_rule():
    """A service may approve where the rule says so."""
    office = Office(ApprovalRule(approvers=lambda r: r.actor.kind == "service"))
    record = await office.ask()
    assert (await office.refusal("approve", record, MIA)).code == "FORBIDDEN"
    assert (await office.desk.approve(record.id, by=Actor("bot", "service"))).status == "approved"


async def test_no_rule_entitles_the_anonymous():
    """SI-4: nobody is nobody, even for a rule that says True."""
    office = Office(ApprovalRule(approvers=lambda r: True))
    record = await office.ask()
    assert (await office.refusal("approve", record, Actor.anonymous())).code == "FORBIDDEN"


@pytest.mark.parametrize("answer", [1, "yes", None, {"ok": True}, [True]])
@pytest.mark.parametrize("is_async", [False, True])
async def test_only_true_entitles(answer, is_async):
    """SI-4: an approver rule is an access rule."""

    async def later(request):
        return answer

    office = Office(ApprovalRule(approvers=later if is_async else lambda r: answer))
    error = await office.refusal("approve", await office.ask(), MIA)
    assert (error.code, error.exposed) == ("FORBIDDEN", True)


def raising(request):
    raise RuntimeError("canary")


async def hanging(request):
    await anyio.sleep_forever()


@pytest.mark.parametrize("rule", [raising, hanging])
async def test_a_broken_rule_entitles_nobody(rule):
    """SI-7: FORBIDDEN, not exposed, cause kept; the request stays open."""
    office = Office(ApprovalRule(approvers=rule), limits=Limits(policy_timeout=0.1))
    record = await office.ask()
    error = await office.refusal("approve", record, MIA)
    assert (error.code, error.exposed) == ("FORBIDDEN", False)
    assert error.__cause__ is not None
    assert (await office.desk.get(record.id)).status == "pending"


async def test_a_rule_sees_the_approver_the_record_and_the_deps():
    """An access rule over the approver and the record, with the application's dependencies."""
    seen = []

    def rule(request):
        seen.append((request.actor, request.record.id, request.input, request.deps))
        return True

    office = Office(ApprovalRule(approvers=rule), deps="deps")
    record = await office.ask(input={"n": 7})
    await office.desk.approve(record.id, by=MIA)
    assert seen == [(MIA, record.id, {"n": 7}, "deps")]


@pytest.mark.parametrize(
    "rule",
    [requires("manager"), managers, lambda r: r.actor == BOSS],
    ids=["requires", "def", "lambda"],
)
async def test_a_capabilitys_rule_holds_after_a_restart(rule):
    """Rules are registered with the capability: a new process can decide what an old one asked."""
    store = MemoryApprovals()
    record = await Office(ApprovalRule(approvers=rule), store=store).ask()
    office = Office(ApprovalRule(approvers=rule), store=store)
    assert (await office.refusal("approve", record, MIA)).code == "FORBIDDEN"
    assert (await office.desk.approve(record.id, by=BOSS)).status == "approved"


async def test_a_policys_rule_holds_after_a_restart():
    """`requires(...)` is written out in full, so any process can judge by it."""
    ask = policy("ask")(lambda r: require_approval("Why.", approvers=requires("manager")))
    store = MemoryApprovals()
    record = await Office(store=store, policies=[ask]).ask()
    office = Office(store=store, policies=[ask])
    assert (await office.refusal("approve", record, MIA)).code == "FORBIDDEN"
    assert (await office.desk.approve(record.id, by=BOSS)).status == "approved"


async def test_a_rule_that_nobody_knows_entitles_nobody():
    """SI-7: a process that cannot resolve the rule refuses; it never falls back to any user."""
    store = MemoryApprovals()
    record = await Office(ApprovalRule(approvers=lambda r: True), store=store).ask()
    error = await Office(store=store).refusal("approve", record, BOSS)
    assert (error.code, error.exposed) == ("FORBIDDEN", False)


async def test_two_closures_of_one_name_are_not_mixed_up():
    """SI-4: each request is judged by its own rule."""

    def only(name):
        return lambda request: request.actor.id == name

    answers = [only("u_mia"), only("u_max")]
    ask = policy("ask")(lambda r: require_approval("Why.", approvers=answers.pop(0)))
    office = Office(policies=[ask])
    first, second = await office.ask(), await office.ask()
    assert (await office.refusal("approve", first, MAX)).code == "FORBIDDEN"
    assert (await office.refusal("approve", second, MIA)).code == "FORBIDDEN"
    assert (await office.desk.approve(first.id, by=MIA)).status == "approved"
    assert (await office.desk.approve(second.id, by=MAX)).status == "approved"


async def test_a_quorum_takes_distinct_approvers():
    """SI-4: n people, not one n times; one rejection ends it."""
    office = Office(ApprovalRule(quorum=2))
    record = await office.ask()
    assert (await office.desk.approve(record.id, by=MIA)).status == "pending"
    assert (await office.refusal("approve", record, MIA)).code == "APPROVAL_NOT_PENDING"
    pending = await office.engine.attempt_resume(record.id)
    assert (pending.error.code, pending.error.retryable) == ("APPROVAL_PENDING", True)
    assert (await office.desk.approve(record.id, by=MAX)).status == "approved"
    other = await office.ask()
    await office.desk.approve(other.id, by=MIA)
    assert (await office.desk.reject(other.id, by=MAX)).status == "rejected"


async def test_racing_approvers_of_one_request():
    """One decides, the others are told that it is decided (reference A 292)."""
    office = Office(ApprovalRule())
    record, codes = await office.ask(), []

    async def decide(n):
        try:
            await office.desk.approve(record.id, by=Actor(f"u_{n}"))
        except CapabilityError as error:
            codes.append(error.code)

    async with anyio.create_task_group() as group:
        for n in range(20):
            group.start_soon(decide, n)
    assert codes == ["APPROVAL_NOT_PENDING"] * 19
    assert len((await office.desk.get(record.id)).decisions) == 1


async def test_decisions_are_told_as_the_approvers_own_act():
    """The envelope's actor is who decided; comment and approval id are in the data (A 100, 101)."""
    office = Office(ApprovalRule())
    for verb in ("approve", "reject"):
        record = await office.ask(correlation_id="cor")
        await getattr(office.desk, verb)(record.id, by=MIA, comment="seen")
    for kind in ("capability.approved", "capability.rejected"):
        (event,) = office.audit.of_type(kind)
        assert (event.actor, event.capability_id) == ({"id": "u_mia", "kind": "user"}, "act")
        assert (event.data["comment"], event.correlation_id) == ("seen", "cor")
        assert event.data["approver"] == {"id": "u_mia", "kind": "user"}
        assert (event.surface, event.input_hash) == ("direct", record.input_hash)


async def test_an_attempt_at_deciding_is_told_too():
    """SI-4: who tried what they may not is on record, with the true reason."""
    office = Office(ApprovalRule())
    record = await office.ask()
    await office.refusal("approve", record, DANA)
    event = office.audit.events[-1]
    assert (event.type, event.actor["id"]) == ("capability.denied", "u_dana")
    assert event.data["reason"] == "forbidden"


async def test_only_the_requester_withdraws():
    """A stranger learns nothing; the audit has the truth; the requester may (reference A 109)."""
    office = Office(ApprovalRule())
    record = await office.ask()
    strange = await office.refusal("withdraw", record, MIA)
    assert strange.code == "APPROVAL_NOT_FOUND"
    assert office.audit.events[-1].data["reason"] == "resume-mismatch"
    assert (await office.desk.withdraw(record.id, by=DANA)).status == "cancelled"
    assert (await office.engine.attempt_resume(record.id)).error.code == "APPROVAL_CANCELLED"


@pytest.mark.parametrize("verb", ["approve", "reject", "withdraw"])
async def test_what_is_decided_is_decided(verb):
    """APPROVAL_NOT_PENDING, whoever comes later."""
    office = Office(ApprovalRule())
    record = await office.ask()
    await office.desk.approve(record.id, by=MIA)
    by = DANA if verb == "withdraw" else MAX
    assert (await office.refusal(verb, record, by)).code == "APPROVAL_NOT_PENDING"
    assert (await office.desk.get(record.id)).status == "approved"


async def test_the_desk_finds_and_pages():
    """By status, capability and requester, oldest first, without gaps (reference A 293, 299)."""
    office = Office(ApprovalRule())
    records = [await office.ask(actor=Actor(f"u_{n % 2}")) for n in range(6)]
    await office.desk.approve(records[0].id, by=MIA)
    ids = [each.id for each in records]
    find = office.desk.find
    assert [each.id for each in await find("approved")] == ids[:1]
    assert [each.id for each in await find(actor_id="u_1")] == ids[1::2]
    page = await find(limit=4)
    rest = await find(limit=4, after=page[-1].id)
    assert [each.id for each in [*page, *rest]] == ids
    assert await find(capability_id="other") == []


@pytest.mark.parametrize("keys", [(), [b"k" * 16]], ids=["plain", "keyed"])
async def test_an_approver_who_cannot_be_stored_changes_nothing(keys):
    """The answer is refused, and the request stays decidable by others."""
    office = Office(ApprovalRule(), keys=keys)
    record = await office.ask()
    odd = Actor("u_odd", attributes={"session": object()})
    with pytest.raises(CapabilityError):
        await office.desk.approve(record.id, by=odd)
    assert (await office.desk.approve(record.id, by=MIA)).status == "approved"
    assert (await office.engine.attempt_resume(record.id)).status == "completed"
