"""The audit of approvals, nested calls and discovery, and what an event can never hold."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import datetime

import anyio
import pytest
from pydantic import SecretStr

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    AuditConfig,
    Context,
    Engine,
    hide,
    input_hash,
    policy,
    require_approval,
)
from capgate.approvals import ApprovalDecision
from capgate.audit import MemoryAudit

DANA = Actor("u_dana", attributes={"email": "canary-attribute"}, permissions={"canary-permission"})
BOSS = Actor("u_boss", display_name="canary-name")
SUSPENDED = ["requested", "approval_requested"]


def world(handler=None, *, config=None, fields=None, **settings):
    """Build an engine that notes its events, with the capability `cap`."""
    audit = MemoryAudit()
    engine = Engine(
        "test",
        audit=AuditConfig([audit], **config or {}),
        on_internal_error=lambda _: None,
        **settings,
    )

    async def give(n: int = 0) -> int:
        """Give back."""
        return n

    engine.capability("cap", **fields or {})(handler or give)
    return engine, audit


def types(audit):
    return [event.type.split(".")[1] for event in audit.events]


async def test_a_suspension_ends_its_execution():
    """`approval_requested` is the terminal event of a suspended call, with the record's facts."""
    engine, audit = world(fields={"approval": ApprovalRule("manager", reason="Big.")})
    outcome = await engine.attempt("cap", {"n": 1}, actor=DANA)
    assert types(audit) == SUSPENDED
    event = audit.events[-1]
    record = outcome.approval
    assert event.data["approval_id"] == record.id
    assert (list(event.data["reasons"]), list(event.data["types"])) == (["Big."], ["manager"])
    assert datetime.fromisoformat(event.data["expires_at"]) == record.expires_at
    assert event.data["suspended"] is True
    assert event.input_hash == record.input_hash == input_hash({"n": 1})


async def test_a_repeat_of_a_suspended_call_ends_its_own_execution():
    """A repeat with the same idempotency key waits for the same approval, in an end of its own."""
    engine, audit = world(fields={"approval": ApprovalRule()})
    options = {"actor": DANA, "idempotency_key": "k"}
    first = await engine.attempt("cap", {"n": 1}, **options)
    again = await engine.attempt("cap", {"n": 1}, **options)
    assert again.approval.id == first.approval.id
    assert types(audit) == SUSPENDED * 2
    last = audit.events[-1]
    assert (last.execution_id, last.data["approval_id"]) == (again.execution_id, first.approval.id)
    assert last.data["suspended"] is True


@pytest.mark.parametrize("verb", ["approve", "reject"])
async def test_a_decision_is_the_approvers_act(verb):
    """`approved` and `rejected` carry the approver in the envelope, and the comment."""
    engine, audit = world(fields={"approval": ApprovalRule()})
    record = (await engine.attempt("cap", {"n": 1}, actor=DANA)).approval
    await getattr(engine.approvals, verb)(record.id, by=BOSS, comment="Seen.")
    event = audit.events[-1]
    assert event.type == {"approve": "capability.approved", "reject": "capability.rejected"}[verb]
    assert dict(event.actor) == {"id": "u_boss", "kind": "user"}
    assert (event.capability_id, event.surface) == ("cap", "direct")
    assert event.correlation_id == record.correlation_id
    assert event.input_hash == record.input_hash
    data = event.to_dict()["data"]
    assert (data["approval_id"], data["comment"]) == (record.id, "Seen.")
    assert data["approver"] == {"id": "u_boss", "kind": "user"}


async def test_a_resumed_call_names_its_approval():
    """On resume `requested` and `started` name the approval, and every event has the hash."""
    engine, audit = world(fields={"approval": ApprovalRule()})
    first = await engine.attempt("cap", {"n": 1}, actor=DANA, correlation_id="cor_1")
    await engine.approvals.approve(first.approval.id, by=BOSS)
    second = await engine.attempt_resume(first.approval.id)
    events = [event for event in audit.events if event.execution_id == second.execution_id]
    assert [event.type.split(".")[1] for event in events] == ["requested", "started", "completed"]
    assert [event.data.get("approval_id") for event in events[:2]] == [first.approval.id] * 2
    assert {event.correlation_id for event in audit.events} == {"cor_1"}
    assert {event.input_hash for event in events} == {first.approval.input_hash}
    assert second.execution_id != first.execution_id
    assert {event.actor["id"] for event in events} == {"u_dana"}


@pytest.mark.parametrize(
    ("approved", "expected"),
    [
        (True, ["requested", "approval_requested", "approved", "started", "completed"]),
        (False, ["requested", "approval_requested", "rejected", "failed"]),
        (None, SUSPENDED),
    ],
)
async def test_an_inline_answer_is_in_order(approved, expected):
    """An inline handler's answer stands in the call's own sequence; then the request is no end."""

    async def decide(record):
        return None if approved is None else ApprovalDecision(approved, BOSS)

    engine, audit = world(
        fields={"approval": ApprovalRule()}, approvals=ApprovalConfig(handler=decide)
    )
    await engine.attempt("cap", {"n": 1}, actor=DANA)
    assert types(audit) == expected
    assert audit.events[1].data["suspended"] is (approved is None)


async def test_nested_calls_write_their_own_events():
    """A nested execution has its own end, its parent's id and the same correlation id."""
    engine, audit = world()

    @engine.capability("outer")
    async def outer(ctx: Context) -> int:
        """Call on."""
        return await ctx.invoke("cap", {"n": 1})

    outcome = await engine.attempt("outer", actor=DANA, correlation_id="cor_1")
    assert types(audit) == ["requested", "started"] * 2 + ["completed"] * 2
    inner = [event for event in audit.events if event.capability_id == "cap"]
    assert {event.parent_execution_id for event in inner} == {outcome.execution_id}
    assert {event.correlation_id for event in audit.events} == {"cor_1"}
    assert {event.actor["id"] for event in inner} == {"u_dana"}


@pytest.mark.parametrize("verbose", [False, True])
async def test_a_discovery_walk_is_told_by_digest(verbose):
    """`capabilities.discovered` has count, surface and digest; ids only when verbose."""

    @policy("broken", phases={"discovery"})
    def broken(request):
        if request.capability.id == "bad":
            raise OSError("canary")
        return hide() if request.capability.id == "hidden" else None

    engine, audit = world(config={"verbose": verbose})
    for name in ("hidden", "bad"):

        async def cap() -> None:
            """Do nothing."""

        engine.capability(name, policies=[broken])(cap)
    await engine.discover("direct", actor=DANA)
    (event,) = audit.events
    data = event.to_dict()["data"]
    assert event.type == "capabilities.discovered"
    assert (data["count"], data["surface"], len(data["digest"])) == (1, "direct", 64)
    assert data["errors"] == [{"capability": "bad", "policy": "broken"}]
    assert data.get("ids") == (["cap"] if verbose else None)
    assert dict(event.actor) == {"id": "u_dana", "kind": "user"}


async def test_hashes_are_on_every_event_after_validation_when_wanted():
    """With `hash_inputs`, every event after validation has the canonical hash; `requested` none."""
    engine, audit = world(config={"hash_inputs": True})
    await engine.invoke("cap", {"n": 7}, actor=DANA)
    hashes = [event.input_hash for event in audit.events]
    assert hashes == [None, input_hash({"n": 7}), input_hash({"n": 7})]
    audit.clear()
    await engine.attempt("cap", {"n": "x"}, actor=DANA)
    assert [event.input_hash for event in audit.events] == [None, None]


async def test_an_event_cannot_be_changed():
    """Events are immutable, their actor and data included, at any depth."""

    @policy("asks")
    def asks(request):
        return require_approval("Ask.")

    engine, audit = world(policies=[asks])
    await engine.attempt("cap", {"n": 1}, actor=DANA)
    await engine.attempt("nope", actor=DANA)
    for event in audit.events:
        with pytest.raises(AttributeError):
            event.type = "other"
        for mapping in (event.actor, event.data, *event.data.get("policy_decisions", ())):
            with pytest.raises(TypeError):
                mapping["extra"] = 1
    for name in ("reasons", "types", "policy_decisions"):
        assert isinstance(audit.events[1].data[name], tuple)


async def test_an_event_can_be_copied_and_pickled():
    """An event can be copied, and handed to another process by a sink."""
    engine, audit = world()
    await engine.attempt("nope", actor=DANA)
    for event in audit.events:
        for again in (copy.copy(event), copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
            assert again.to_dict() == event.to_dict()


async def authenticate(credentials):
    return DANA


async def echo(text: str, secret: SecretStr) -> list[str]:
    """Give back, or raise."""
    if text == "canary-raise":
        raise ValueError(text)
    return [text, secret.get_secret_value()]


async def gated(text: str) -> str:
    """Give back."""
    return text


async def test_events_hold_no_payload_and_no_credential():
    """No input, output, credential, attribute or permission is in any event (SI-10)."""
    engine, audit = world(echo, authenticate=authenticate, config={"verbose": True})
    engine.capability("gated", approval=ApprovalRule())(gated)
    payload = {"text": "canary-input", "secret": "canary-secret"}
    for each in (payload, payload | {"text": "canary-raise"}, {"text": ["canary-invalid"]}):
        await engine.attempt("cap", each, credentials="canary-token", idempotency_key="k")
    record = (await engine.attempt("gated", {"text": "canary-gated"}, actor=DANA)).approval
    await engine.approvals.approve(record.id, by=BOSS)
    await engine.resume(record.id)
    await engine.discover("direct", actor=DANA)
    written = json.dumps([event.to_dict() for event in audit.events])
    assert "canary" not in written


async def test_an_event_is_plain_json():
    """`to_dict` is JSON with every field, its timestamp ISO 8601 in UTC."""
    engine, audit = world()
    await engine.invoke("cap", actor=DANA)
    plain = json.loads(json.dumps(audit.events[0].to_dict()))
    assert list(plain) == [
        "type",
        "timestamp",
        "surface",
        "actor",
        "execution_id",
        "capability_id",
        "correlation_id",
        "parent_execution_id",
        "input_hash",
        "data",
    ]
    assert datetime.fromisoformat(plain["timestamp"]).utcoffset().total_seconds() == 0


async def test_many_calls_at_once_end_once_each():
    """Under load, with failures, timeouts and cancellations, every call ends exactly once."""

    async def handler(n: int) -> int:
        """Complete, fail or wait."""
        if n % 4 == 1:
            raise ValueError
        if n % 4 > 1:
            await anyio.sleep_forever()
        return n

    engine, audit = world(handler)

    async def one(n):
        with anyio.move_on_after(0.01 if n % 4 == 3 else 10):
            await engine.attempt("cap", {"n": n}, actor=DANA, timeout=5 if n % 4 == 3 else 0.01)

    async with anyio.create_task_group() as group:
        for n in range(200):
            group.start_soon(one, n)
    begins = {"capability.requested", "capability.started"}
    ends = [event.execution_id for event in audit.events if event.type not in begins]
    assert len(ends) == len(set(ends)) == 200
