"""The gate: a call suspends with one request that says all there is to say, and nothing runs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from capgate import (
    Actor,
    ApprovalRequired,
    ApprovalRule,
    CapabilityError,
    Limits,
    Redact,
    allow,
    input_hash,
    policy,
    public_approval,
    require_approval,
    requires,
)

DANA, MIA = Actor("u_dana", permissions={"refund"}), Actor("u_mia")


def asking(name, reason="Why.", **terms):
    return policy(name)(lambda request: require_approval(reason, **terms))


def window(record) -> float:
    return (record.expires_at - record.requested_at).total_seconds()


async def test_a_record_holds_everything_that_was_asked(world):
    """Input, actor, surface, reasons, types, risk and times (reference A 80)."""
    built = world().add(
        approval=ApprovalRule("manager", reason="Money moves."), risk="high", side_effect="write"
    )
    record = await built.asked({"n": "7"}, correlation_id="cor")
    assert (record.capability_id, record.surface, record.actor) == ("act", "direct", DANA)
    assert record.actor.permissions == {"refund"}
    assert (record.input, record.input_hash) == ({"n": 7}, input_hash({"n": 7}))
    assert (record.reasons, record.types) == (("Money moves.",), ("manager",))
    assert (record.risk, record.side_effect, record.correlation_id) == ("high", "write", "cor")
    assert (record.requested_at, record.status) == (built.clock.now(), "pending")
    assert record.contract == built.engine._registry.get("act").view.fingerprint
    assert record.id.startswith("apr_")
    assert built.ran == []


async def test_a_suspended_call_ends_with_its_request(world):
    """One event, nothing after it, no start (reference A 84)."""
    built = world().add(approval=ApprovalRule("manager", reason="Money moves."))
    record = await built.asked()
    assert built.told() == ["requested", "approval_requested"]
    event = built.audit.events[-1]
    assert event.data["approval_id"] == record.id
    assert (event.data["reasons"], event.data["types"]) == (("Money moves.",), ("manager",))
    assert event.data["suspended"] is True
    assert event.data["expires_at"] == record.expires_at.isoformat()
    assert event.input_hash == record.input_hash
    assert event.correlation_id == record.correlation_id


async def test_the_outcome_unwraps_to_approval_required(world):
    """The id is reachable on the error (reference A 188)."""
    built = world().add(approval=ApprovalRule())
    outcome = await built.call()
    assert isinstance(outcome, ApprovalRequired)
    with pytest.raises(CapabilityError) as caught:
        outcome.unwrap()
    assert (caught.value.code, caught.value.approval_id) == (
        "APPROVAL_REQUIRED",
        outcome.approval.id,
    )
    with pytest.raises(CapabilityError, match="APPROVAL_REQUIRED"):
        await built.engine.invoke("act", actor=DANA)


@pytest.mark.parametrize(("title", "name"), [("Refund", "Refund"), (None, "act")])
async def test_a_rule_without_words_names_the_capability(world, title, name):
    """Whoever is asked learns for what (reference A 79)."""
    fields = {} if title is None else {"title": title}
    (reason,) = (await world().add(approval=ApprovalRule(), **fields).asked()).reasons
    assert name in reason
    assert "None" not in reason


async def test_several_requirements_make_one_request(world):
    """All reasons and types in order, the capability's first (reference A 81, 82)."""
    built = world(policies=[asking("a", "A.", type="a"), asking("b", "B.", type="b")])
    built.add(approval=ApprovalRule("own", reason="Own."))
    record = await built.asked()
    assert (record.reasons, record.types) == (("Own.", "A.", "B."), ("own", "a", "b"))
    assert built.told().count("approval_requested") == 1


@pytest.mark.parametrize(
    ("own", "asked", "expected"),
    [
        (60, [3600], 60),
        (3600, [60], 60),
        (None, [86_400], 900),
        (86_400, [None], 900),
        (86_400, [86_400], 86_400),
        (None, [None], 900),
        (3600, [7200, 1800], 1800),
    ],
)
async def test_the_shortest_window_wins_defaults_included(world, own, asked, expected):
    """Each requirement has its own window (reference A 83)."""
    policies = [asking(f"p{n}", expires_in=seconds) for n, seconds in enumerate(asked)]
    built = world(policies=policies).add(approval=ApprovalRule(expires_in=own))
    assert window(await built.asked()) == expected


async def test_the_default_window_is_the_engines(world):
    """Fifteen minutes, unless the engine says otherwise."""
    assert window(await world().add(approval=ApprovalRule()).asked()) == 900
    built = world(limits=Limits(approval_expires_in=timedelta(minutes=2)))
    assert window(await built.add(approval=ApprovalRule()).asked()) == 120


@pytest.mark.parametrize(("first", "second", "both"), [(1, 1, True), (1, 0, False), (0, 0, False)])
async def test_self_approval_needs_everyones_leave(world, first, second, both):
    """SI-4: one requirement that forbids it forbids it."""
    built = world(policies=[asking("p", allow_self=bool(second))])
    built.add(approval=ApprovalRule(allow_self=bool(first)))
    assert (await built.asked()).allow_self is both


async def test_every_approver_rule_must_be_satisfied(world):
    """SI-4: rules of several requirements add up."""
    built = world(policies=[asking("p", approvers=requires("finance"))])
    built.add(approval=ApprovalRule(approvers=requires("manager")))
    record = await built.asked()
    decide = built.engine.approvals.approve
    for lacking in ({"finance"}, {"manager"}, set()):
        with pytest.raises(CapabilityError, match="FORBIDDEN"):
            await decide(record.id, by=Actor("u_max", permissions=lacking))
    record = await decide(record.id, by=Actor("u_max", permissions={"finance", "manager"}))
    assert record.status == "approved"


async def test_no_requirement_no_request(world):
    """A policy that allows does not suspend."""
    built = world(policies=[policy("p")(lambda r: allow())]).add()
    assert (await built.call()).status == "completed"
    assert await built.engine.approvals.find() == []


async def test_the_store_holds_the_record_before_anybody_hears_of_it(world, store):
    """Reference A 85: the trail named an approval that did not exist."""
    order = []
    built = world(approvals=store, audit=[lambda event: order.append(event.type)])
    store.before["create"] = note(order, "create")
    await built.add(approval=ApprovalRule()).asked()
    assert order == ["capability.requested", "create", "capability.approval_requested"]


def note(order, what):
    async def write():
        order.append(what)

    return write


async def test_a_record_that_could_not_be_stored_is_not_told_of(world, store):
    """SI-7: APPROVAL_UNAVAILABLE, nothing runs, nothing is announced (reference A 85)."""
    store.fails.add("create")
    built = world(approvals=store).add(approval=ApprovalRule())
    error = (await built.call()).error
    assert (error.code, error.retryable, error.effect) == ("APPROVAL_UNAVAILABLE", True, "none")
    assert built.told() == ["requested", "failed"]
    assert built.ran == []


async def test_what_approvers_are_shown_is_redacted(world):
    """The true value is bound and executes; the shown one is for eyes (reference A 89)."""
    redact = Redact(approval_input=lambda plain: {**plain, "n": "hidden"})
    built = world().add(approval=ApprovalRule(), redact=redact)
    record = await built.granted({"n": 7})
    assert (record.shown_input, record.input) == ({"n": "hidden"}, {"n": 7})
    assert (await built.resume(record)).output == 7


async def test_a_redaction_cannot_change_what_executes(world):
    """SI-6: it works on a copy."""

    def vandalise(plain):
        plain["n"] = 666
        return plain

    built = world().add(approval=ApprovalRule(), redact=Redact(approval_input=vandalise))
    record = await built.granted({"n": 7})
    assert record.input == {"n": 7}
    assert (await built.resume(record)).output == 7


def fails(plain):
    raise RuntimeError("canary")


@pytest.mark.parametrize("shown", [fails, lambda plain: object(), lambda plain: {1, 2}])
async def test_a_broken_redaction_shows_nothing(world, shown):
    """SI-9: no request is made with the true value on display."""
    built = world().add(approval=ApprovalRule(), redact=Redact(approval_input=shown))
    outcome = await built.call()
    assert outcome.error.exposed is False
    assert outcome.error.stage == "approval"
    assert await built.engine.approvals.find() == []


async def test_clients_see_five_fields(world):
    """`public_approval` is the only form for clients: no input, no actor, no approvers."""
    record = await world().add(approval=ApprovalRule(reason="Money moves.")).asked({"n": 987654})
    public = public_approval(record)
    assert public == {
        "id": record.id,
        "capability": "act",
        "message": "Money moves.",
        "expires_at": record.expires_at.isoformat(),
        "status": "pending",
    }
    assert "987654" not in str(public)


async def test_the_callers_record_is_detached(world):
    """What the caller does to it changes nothing stored (reference A 290)."""

    async def take(items: list[str]) -> list[str]:
        return items

    built = world().add(handler=take, approval=ApprovalRule())
    record = await built.asked({"items": ["a"]})
    record.input["items"].append("smuggled")
    await built.engine.approvals.approve(record.id, by=MIA)
    assert (await built.resume(record)).output == ["a"]


async def test_the_gate_comes_after_every_refusal(world):
    """Nobody is asked to approve what is denied anyway."""
    denying = policy("p")(lambda r: require_approval("Why.") if r.actor == DANA else allow())
    built = world(policies=[denying], authorize=lambda r: False).add()
    assert (await built.call()).error.code == "FORBIDDEN"
    assert await built.engine.approvals.find() == []


async def test_two_calls_make_two_requests(world):
    """A new call with the same input needs its own approval (reference A 133)."""
    built = world().add(approval=ApprovalRule())
    first = await built.granted()
    second = await built.asked()
    assert first.id != second.id
    assert await built.status(second) == "pending"
