"""SI-5: a record that was changed behind the engine's back executes nothing."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    CapabilityError,
    input_hash,
    public_error,
    requires,
)
from capgate.approvals import ApprovalDecision, ApprovalRecord, bind

DANA, MIA, EVE = Actor("u_dana"), Actor("u_mia"), Actor("u_eve")
OLD, NEW, FOREIGN = b"o" * 16, b"n" * 32, b"f" * 16


def change(**facts):
    return lambda record: replace(record, **facts)


FIELDS = {
    "id": change(id="apr_other"),
    "capability_id": change(capability_id="other"),
    "surface": change(surface="test"),
    "actor": change(actor=EVE),
    "actor-kind": change(actor=Actor("u_dana", "service")),
    "actor-permissions": change(actor=Actor("u_dana", permissions={"root"})),
    "actor-attributes": change(actor=Actor("u_dana", attributes={"role": "admin"})),
    "actor-name": change(actor=Actor("u_dana", display_name="The Boss")),
    "input": change(input={"n": 666}),
    "input-and-hash": change(input={"n": 666}, input_hash=input_hash({"n": 666})),
    "input-type": change(input={"n": "7"}),
    "input-none": change(input=None),
    "shown_input": change(shown_input={"n": 1}),
    "input_hash": change(input_hash="0" * 64),
    "binding": change(binding="0" * 64),
    "binding-empty": change(binding=""),
    "binding-odd": change(binding="\u0130\ud800"),
    "contract": change(contract="0" * 64),
    "reasons": change(reasons=("Nothing much.",)),
    "types": change(types=("cfo",)),
    "risk": change(risk="low"),
    "side_effect": change(side_effect="none"),
    "correlation_id": change(correlation_id="cor_other"),
    "requested_at": lambda r: replace(r, requested_at=r.requested_at - timedelta(days=1)),
    "expires_at": lambda r: replace(r, expires_at=r.expires_at + timedelta(days=1)),
    "approver_rules": change(approver_rules=()),
    "allow_self": change(allow_self=True),
    "quorum": change(quorum=1),
    "idempotency_key": change(idempotency_key='["act","user","u_dana","k"]'),
    "idempotency_key-garbage": change(idempotency_key="garbage"),
    "idempotency_key-shape": change(idempotency_key='{"k": 1}'),
}
BOUND = {f.name for f in fields(ApprovalRecord)} - {"status", "decisions", "consumed_by"}


@pytest.fixture
def gated(world, store):
    """An engine over the fragile store; `other` is an ungated capability of the same contract."""

    def build(**terms):
        rule = ApprovalRule(approvers=requires("manager"), quorum=2)
        built = world(approvals=ApprovalConfig(store, **terms))
        built.add(approval=rule, expose={"direct", "test"})
        return built.add("other", expose={"direct", "test"})

    return build


async def approved(built, **options):
    record = await built.asked({"n": 7}, actor=DANA, **options)
    for name in ("u_a", "u_b"):
        approver = Actor(name, permissions={"manager"})
        record = await built.engine.approvals.approve(record.id, by=approver)
    return record


def test_every_bound_field_is_tampered_with():
    """The table above has a line for each field of a record that must not change."""
    named = {name.partition("-")[0] for name in FIELDS}
    assert named == BOUND


@pytest.mark.parametrize("keys", [(), [OLD]], ids=["plain", "keyed"])
@pytest.mark.parametrize("alter", FIELDS.values(), ids=FIELDS)
async def test_no_field_can_be_changed(gated, store, alter, keys):
    """Reference A 134: everything but the input could be rewritten unnoticed."""
    built = gated(keys=keys)
    record = await approved(built)
    store.alter = alter
    error = (await built.engine.attempt_resume(record.id)).error
    assert (error.code, error.retryable, error.exposed) == (
        "APPROVAL_INPUT_MISMATCH",
        False,
        False,
    )
    assert public_error(error)["code"] == "INTERNAL_ERROR"
    assert built.ran == []
    assert "consume" not in store.calls


@pytest.mark.parametrize("signer", [(), [FOREIGN]], ids=["unkeyed", "foreign-key"])
@pytest.mark.parametrize("alter", FIELDS.values(), ids=FIELDS)
async def test_whoever_lacks_the_key_cannot_bind_anew(gated, store, alter, signer):
    """With keys a complete forgery is noticed too."""
    built = gated(keys=[OLD])
    record = await approved(built)

    def forge(record):
        forged = replace(alter(record), input_hash=input_hash(alter(record).input))
        return replace(forged, binding=bind(forged, signer))

    store.alter = forge
    outcome = await built.engine.attempt_resume(record.id)
    assert outcome.error.code == "APPROVAL_INPUT_MISMATCH"
    assert built.ran == []


FORGED = {
    "status": change(status="approved"),
    "decision": lambda r: replace(
        r, status="approved", decisions=(decision(r, "u_x"), decision(r, "u_y"))
    ),
    "one-of-two": lambda r: replace(r, status="approved", decisions=(decision(r, "u_x"),)),
    "twice-the-same": lambda r: replace(
        r, status="approved", decisions=(decision(r, "u_x"), decision(r, "u_x"))
    ),
    "rejection-ignored": lambda r: replace(
        r,
        status="approved",
        decisions=(decision(r, "u_x"), decision(r, "u_y"), decision(r, "u_z", approved=False)),
    ),
}


def decision(record, name, *, approved=True):
    by = Actor(name, permissions={"manager"})
    return ApprovalDecision(approved=approved, by=by, decided_at=record.requested_at)


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
async def test_with_keys_a_yes_cannot_be_forged(gated, store, forge):
    """Every decision carries a seal that the store cannot make."""
    built = gated(keys=[OLD])
    record = await built.asked({"n": 7})
    store.alter = forge
    assert (await built.engine.attempt_resume(record.id)).error.code == "APPROVAL_INPUT_MISMATCH"
    assert built.ran == []


@pytest.mark.parametrize("forge", ["status", "one-of-two", "twice-the-same", "rejection-ignored"])
async def test_without_keys_a_status_without_its_answers_is_noticed(gated, store, forge):
    """An approved record must show who approved it."""
    built = gated()
    record = await built.asked({"n": 7})
    store.alter = FORGED[forge]
    assert (await built.engine.attempt_resume(record.id)).error.code == "APPROVAL_INPUT_MISMATCH"


async def test_a_seal_cannot_be_moved_to_another_record(gated, store):
    """Two requests, one yes: it stays where it was given."""
    built = gated(keys=[OLD])
    decisions = (await approved(built)).decisions
    other = await built.asked({"n": 8})
    store.alter = change(status="approved", decisions=decisions)
    assert (await built.engine.attempt_resume(other.id)).error.code == "APPROVAL_INPUT_MISMATCH"


async def test_keys_rotate(gated):
    """The first signs, all verify: a record under the old key still runs."""
    record = await approved(gated(keys=[OLD]))
    built = gated(keys=[NEW, OLD])
    assert (await built.engine.attempt_resume(record.id)).output == 7


async def test_an_approval_begun_under_the_old_key_is_finished_under_the_new(gated):
    """Request and first yes before the rotation, second yes and execution after it."""
    before, after = gated(keys=[OLD]), gated(keys=[NEW, OLD])
    record = await before.asked({"n": 7})
    for built, name in ((before, "u_a"), (after, "u_b")):
        by = Actor(name, permissions={"manager"})
        await built.engine.approvals.approve(record.id, by=by)
    assert (await after.engine.attempt_resume(record.id)).output == 7


@pytest.mark.parametrize("keys", [(), [NEW]], ids=["none", "new-only"])
async def test_a_retired_key_verifies_nothing(gated, keys):
    """Once it is gone from the list, what it signed is worthless."""
    record = await approved(gated(keys=[OLD]))
    built = gated(keys=keys)
    error = (await built.engine.attempt_resume(record.id)).error
    assert error.code == "APPROVAL_INPUT_MISMATCH"


async def test_a_record_from_before_there_were_keys_is_not_trusted(gated):
    """SI-7: a plain hash is something anybody can compute."""
    record = await approved(gated())
    error = (await gated(keys=[OLD]).engine.attempt_resume(record.id)).error
    assert error.code == "APPROVAL_INPUT_MISMATCH"


@pytest.mark.parametrize("alter", [FIELDS["shown_input"], FIELDS["input"], FIELDS["quorum"]])
async def test_a_tampered_request_cannot_be_decided(gated, store, alter):
    """Whoever decides would be shown something else than what was asked for."""
    built = gated(keys=[OLD])
    record = await built.asked({"n": 7})
    store.alter = alter
    with pytest.raises(CapabilityError) as caught:
        await built.engine.approvals.approve(record.id, by=Actor("u_max", permissions={"manager"}))
    assert caught.value.code == "APPROVAL_INPUT_MISMATCH"
