"""What a resumed call shows: to the audit, to policies, and in which order it acts."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalRule,
    AuditConfig,
    Engine,
    allow,
    hide,
    policy,
    public_error,
)
from capgate.audit import MemoryAudit

DANA, MIA = Actor("u_dana"), Actor("u_mia")
TERMINAL = {"denied", "approval_requested", "completed", "failed", "cancelled"}


async def test_the_entry_of_a_resume_names_its_approval(world):
    """Also when it is refused, and when the id is unknown."""
    built = world().add(approval=ApprovalRule())
    record = await built.asked()
    for id_ in (record.id, "apr_unknown"):
        built.audit.clear()
        await built.engine.attempt_resume(id_, actor=DANA)
        assert built.audit.events[0].type == "capability.requested"
        assert built.audit.events[0].data["approval_id"] == id_


async def test_consumption_comes_before_the_start_and_the_start_before_the_handler(world, store):
    """Consume, `capability.started`, handler: in this order."""
    order = []

    async def consumed():
        order.append("consume")

    async def act() -> None:
        order.append("handler")

    store.before["consume"] = consumed
    built = world(approvals=store, audit=lambda event: order.append(event.type))
    record = await built.add(handler=act, approval=ApprovalRule()).granted()
    order.clear()
    await built.resume(record)
    assert order == [
        "capability.requested",
        "consume",
        "capability.started",
        "handler",
        "capability.completed",
    ]


@pytest.mark.parametrize("state", ["pending", "rejected", "approved", "consumed", "unknown"])
async def test_each_execution_ends_in_one_terminal_event(world, state):
    """SI-12: resumes included."""
    built = world().add(approval=ApprovalRule())
    record = await built.asked()
    if state == "rejected":
        await built.engine.approvals.reject(record.id, by=MIA)
    if state in {"approved", "consumed"}:
        await built.engine.approvals.approve(record.id, by=MIA)
    if state == "consumed":
        await built.resume(record)
    await built.engine.attempt_resume("apr_unknown" if state == "unknown" else record.id)
    ends = {}
    for event in built.audit.events:
        if event.type.removeprefix("capability.") in TERMINAL and event.execution_id:
            ends.setdefault(event.execution_id, []).append(event.type)
    asked = [e.execution_id for e in built.audit.of_type("capability.requested")]
    assert {key: len(found) for key, found in ends.items()} == dict.fromkeys(asked, 1)


async def test_no_input_gets_into_the_events_of_an_approval(world):
    """SI-10: from the request to the execution, also when it is refused."""

    async def act(secret: str) -> str:
        return secret

    built = world().add(handler=act, approval=ApprovalRule())
    record = await built.granted({"secret": "canary"})
    await built.resume(record, actor=MIA)
    await built.resume(record)
    await built.resume(record)
    assert "canary" not in str([event.to_dict() for event in built.audit.events])


async def test_a_capability_that_is_hidden_by_now_is_missing(world):
    """SI-2, SI-8: discovery-phase policies run on resume; the approval is not burnt."""
    hidden = []
    curtain = policy("curtain", phases={"discovery"})(lambda r: hide() if hidden else allow())
    built = world(policies=[curtain]).add(approval=ApprovalRule())
    record = await built.granted()
    hidden.append(True)
    error = (await built.resume(record)).error
    assert public_error(error) == public_error((await built.call(id="missing")).error)
    assert built.audit.of_type("capability.denied")[0].data["reason"] == "hidden"
    assert await built.status(record) == "approved"
    assert built.ran == []


@pytest.mark.parametrize("given", [False, True])
async def test_policies_of_a_resume_see_its_requester(world, given):
    """Also at discovery: it is the requester's call, whoever relays it."""
    seen = []
    spy = policy("spy", phases={"discovery", "execution"})(
        lambda r: seen.append((r.phase, r.actor, r.approval is not None)) or allow()
    )
    built = world(policies=[spy]).add(approval=ApprovalRule())
    record = await built.granted()
    seen.clear()
    await built.resume(record, **({"actor": DANA} if given else {}))
    assert seen == [("discovery", DANA, True), ("execution", DANA, True)]


async def test_an_approval_is_told_before_the_caller_hears_of_it(store):
    """Strict: `approval_requested` is that call's terminal event, and it is awaited."""
    kept = MemoryAudit()

    async def slow(event):
        await anyio.sleep(0.01)
        kept(event)

    engine = Engine("test", audit=AuditConfig([slow], strict=True), approvals=store)

    @engine.capability("act", approval=ApprovalRule())
    async def act() -> None:
        """Act."""

    async with engine:
        await engine.attempt("act", actor=DANA)
        assert len(kept.of_type("capability.approval_requested")) == 1


async def test_credentials_bind_the_actor_they_prove(world):
    """SI-3: the requester is who was authenticated."""

    async def authenticate(credentials):
        return Actor("u_proven")

    built = world(authenticate=authenticate).add(approval=ApprovalRule())
    record = await built.asked(actor=None, credentials="c")
    assert record.actor == Actor("u_proven")
    with pytest.raises(Exception, match="SELF_APPROVAL"):
        await built.engine.approvals.approve(record.id, by=Actor("u_proven"))


async def test_dependencies_are_todays(world):
    """`deps=` of the resume reaches rules, policies and handler."""
    seen = []
    spy = policy("spy", phases={"execution"})(lambda r: seen.append(r.deps) or allow())
    built = world(policies=[spy], deps="engine").add(
        approval=ApprovalRule(), access=lambda r: seen.append(r.deps) or True
    )
    record = await built.granted(deps="then")
    seen.clear()
    await built.resume(record, deps="now")
    assert seen == ["now", "now"]


@pytest.mark.parametrize("id", ["known", "apr_unknown"])
async def test_missing_dependencies_are_a_mistake_whatever_the_id(world, id):
    """SI-8: the TypeError says nothing about the approval."""
    built = world(deps_type=str).add(approval=ApprovalRule())
    record = await built.granted(deps="then")
    with pytest.raises(TypeError, match="deps"):
        await built.engine.attempt_resume(record.id if id == "known" else id)
    assert await built.status(record) == "approved"
