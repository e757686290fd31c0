"""Before anything of a request is revealed: is it yours, and is it there?"""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

from capgate import Actor, ApprovalRule, CancelToken, Failed, public_error

DANA, EVE, MIA = Actor("u_dana"), Actor("u_eve"), Actor("u_mia")
STATES = ["pending", "approved", "rejected", "cancelled", "consumed", "expired"]


@pytest.fixture
def gated(world):
    return world(surfaces={"desk"}).add(
        approval=ApprovalRule(), expose={"direct", "desk"}, side_effect="write", risk="low"
    )


async def in_state(built, state):
    """A request that is in the given state."""
    record = await built.asked()
    desk = built.engine.approvals
    if state in {"approved", "consumed"}:
        await desk.approve(record.id, by=MIA)
    if state == "consumed":
        await built.resume(record)
    if state == "rejected":
        await desk.reject(record.id, by=MIA)
    if state == "cancelled":
        await desk.withdraw(record.id, by=DANA)
    if state == "expired":
        built.clock.advance(900)
    return record


def face(outcome):
    assert isinstance(outcome, Failed), outcome
    error = outcome.error
    shown = (str(error), error.stage, error.retryable, error.exposed, error.details, outcome.effect)
    return pickle.dumps(public_error(error)), shown


GUARDS = {
    "other-actor": {"actor": EVE},
    "other-kind": {"actor": Actor("u_dana", "service")},
    "anonymous": {"actor": Actor.anonymous()},
    "other-surface": {"expected_surface": "mcp"},
    "odd-surface": {"expected_surface": ""},
    "both": {"actor": EVE, "expected_surface": "mcp"},
    "malformed-actor": {"actor": "u_dana"},
    "half-built-actor": {"actor": object.__new__(Actor)},
}


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
@pytest.mark.parametrize("state", STATES)
async def test_a_guard_that_does_not_match_looks_like_an_unknown_id(gated, state, guard):
    """SI-8: identical outside in every state of the request (reference A 122, 136, 137, 138)."""
    record = await in_state(gated, state)
    mismatched = await gated.engine.attempt_resume(record.id, **guard)
    unknown = await gated.engine.attempt_resume("apr_unknown", **guard)
    assert face(mismatched) == face(unknown)


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
async def test_the_owner_can_still_resume(gated, guard):
    """A stranger's attempt changes nothing (reference A 136)."""
    record = await in_state(gated, "approved")
    await gated.resume(record, **guard)
    assert await gated.status(record) == "approved"
    assert (await gated.resume(record, actor=DANA, expected_surface="direct")).output == 1


@pytest.mark.parametrize(
    ("id", "reason"), [("known", "resume-mismatch"), ("apr_guess", "approval-unknown")]
)
async def test_the_audit_has_the_true_reason_and_the_caller(gated, id, reason):
    """Reference A 123: guessing ids could not be attributed."""
    record = await in_state(gated, "approved")
    await gated.engine.attempt_resume(
        record.id if id == "known" else id, actor=EVE, expected_surface="desk"
    )
    event = gated.audit.events[-1]
    assert (event.type, event.data["reason"]) == ("capability.denied", reason)
    assert event.actor == {"id": "u_eve", "kind": "user"}
    assert event.surface == "desk"
    assert gated.audit.events[-2].type == "capability.requested"


async def test_matching_guards_resume(gated):
    """Same kind and id, same surface (reference A 135)."""
    record = await gated.granted(surface="desk")
    outcome = await gated.resume(record, actor=DANA, expected_surface="desk")
    assert outcome.status == "completed"


async def test_a_view_resumes_what_was_asked_on_its_surface_only(gated):
    """`engine.on(surface)` is guarded by construction (reference A 279)."""
    record = await in_state(gated, "approved")
    elsewhere = await gated.engine.on("desk").attempt_resume(record.id, actor=DANA)
    assert elsewhere.error.code == "APPROVAL_NOT_FOUND"
    here = await gated.engine.on("direct").attempt_resume(record.id, actor=DANA)
    assert here.status == "completed"


async def test_guards_never_reattribute(gated, world):
    """SI-3: it executes as its requester, whoever relays it (reference A 139)."""
    seen = []

    def rule(request):
        seen.append(request.actor)
        return True

    built = world().add(approval=ApprovalRule(), access=rule)
    record = await built.granted()
    await built.resume(record)
    assert seen == [DANA, DANA]


@pytest.mark.parametrize("id", ["", "apr_", "x" * 10_000, "apr_\x00", "__class__"])
async def test_an_odd_id_is_an_unknown_one(gated, id):
    """An id is looked up, never interpreted."""
    assert (await gated.engine.attempt_resume(id)).error.code == "APPROVAL_NOT_FOUND"


@pytest.mark.parametrize("id", [None, 7, b"apr_1"])
async def test_an_id_that_is_no_text_is_a_mistake(gated, id):
    """A programming error, raised as one (reference A 26)."""
    with pytest.raises(TypeError):
        await gated.engine.attempt_resume(id)


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": True},
        {"timeout": "5"},
        {"timeout": float("nan")},
        {"cancel": object()},
        {"expected_surface": 7},
    ],
    ids="-".join,
)
@pytest.mark.parametrize("id", ["known", "apr_unknown"])
async def test_arguments_that_cannot_be_are_refused_at_once(gated, id, wrong):
    """TypeError as for a call, whatever the id: it says nothing about it."""
    record = await in_state(gated, "approved")
    with pytest.raises(TypeError):
        await gated.engine.attempt_resume(record.id if id == "known" else id, **wrong)
    assert await gated.status(record) == "approved"


async def test_a_timeout_may_be_a_timedelta(gated):
    """Durations are seconds or a timedelta, here too."""
    record = await in_state(gated, "approved")
    outcome = await gated.resume(record, timeout=timedelta(seconds=5))
    assert outcome.status == "completed"


@pytest.mark.parametrize("state", STATES)
async def test_a_token_that_has_fired_reveals_nothing_to_a_stranger(gated, state):
    """SI-8: a stopped resume looks the same for unknown ids and for somebody else's."""
    token = CancelToken()
    token.cancel()
    record = await in_state(gated, state)
    looks = [
        public_error((await gated.engine.attempt_resume(id_, actor=EVE, cancel=token)).error)
        for id_ in (record.id, "apr_unknown")
    ]
    assert looks[0] == looks[1]


async def test_a_closed_engine_resumes_nothing(gated):
    """`aclose` refuses new calls, resumed ones included."""
    record = await in_state(gated, "approved")
    await gated.engine.aclose()
    with pytest.raises(RuntimeError, match="closed"):
        await gated.resume(record)
    assert gated.ran == []
