"""The binding notices every change of a record, and with keys every forgery."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import fields, replace
from datetime import timedelta

import pytest

from capgate.approvals import ApprovalDecision, ApprovalRecord, bind, intact, seal
from capgate.call import Actor
from capgate.capability import canonical_json, input_hash
from capgate.testing.sample_approvals import EXPIRY, NOW, no, sample, yes

OLD, NEW = b"an old key of 16 bytes", b"a new key of 16 bytes!"
CHANGED = {
    "id": "apr_2",
    "capability_id": "orders.ship",
    "surface": "http",
    "actor": Actor("dana", "service", permissions={"orders:refund", "admin"}),
    "input": {"order_id": "ord_42", "amount": "9999.00"},
    "shown_input": {"order_id": "ord_42", "amount": "1.00"},
    "input_hash": "0" * 64,
    "contract": "another fingerprint",
    "reasons": ("Nothing to see.",),
    "types": (),
    "risk": "low",
    "side_effect": "read",
    "correlation_id": "cor_2",
    "requested_at": NOW - timedelta(days=1),
    "expires_at": EXPIRY + timedelta(microseconds=1),
    "approver_rules": (),
    "allow_self": True,
    "quorum": 2,
    "idempotency_key": None,
}
MUTABLE = {"binding", "status", "decisions", "consumed_by"}


@pytest.mark.parametrize("name", sorted({f.name for f in fields(ApprovalRecord)} - MUTABLE))
@pytest.mark.parametrize("keys", [(), (NEW,)], ids=["plain", "keyed"])
def test_a_change_of_any_field_breaks_the_binding(name, keys):
    """SI-5: an approval binds one exact operation; reference A bound the input only."""
    record = sample("apr_1")
    bound = replace(record, binding=bind(record, keys))
    assert intact(bound, keys)
    assert not intact(replace(bound, **{name: CHANGED[name]}), keys)


@pytest.mark.parametrize(
    "actor",
    [
        Actor("eve", "service", permissions={"orders:refund"}),
        Actor("dana", "user", permissions={"orders:refund"}),
        Actor("dana", "service", permissions={"orders:refund"}, attributes={"org": 1}),
        Actor("dana", "service", permissions={"orders:refund"}, display_name="D"),
    ],
)
def test_the_whole_actor_is_bound(actor):
    """SI-3: another kind, permission or attribute is another requester."""
    assert not intact(replace(sample("apr_1"), actor=actor))


def test_the_input_is_hashed_again():
    """SI-6: rewriting the input together with its hash breaks the binding all the same."""
    record = sample("apr_1")
    forged = {"order_id": "ord_42", "amount": "9999.00"}
    assert not intact(replace(record, input=forged))
    assert not intact(replace(record, input=forged, input_hash=input_hash(forged)))
    misbound = replace(record, input_hash=input_hash(forged))
    assert not intact(replace(misbound, binding=bind(misbound)))


def test_a_decision_does_not_change_the_binding():
    """Status, decisions and consumption come after the binding."""
    record = sample("apr_1")
    decided = replace(record, status="consumed", decisions=(yes("mia"),), consumed_by="exe_1")
    assert bind(decided) == record.binding
    assert intact(decided)


def test_without_keys_the_binding_is_a_plain_hash_of_the_canonical_record():
    """Another language can check it: SHA-256 over canonical JSON."""
    record = sample("apr_1")
    facts = {k: v for k, v in record.to_dict().items() if k not in MUTABLE}
    payload = canonical_json({"capgate": "approval/1", "record": facts})
    assert record.binding == hashlib.sha256(payload).hexdigest()
    assert bind(record, [NEW]) == hmac.new(NEW, payload, hashlib.sha256).hexdigest()


def test_the_first_key_signs_and_all_verify():
    """Keys rotate: put the new one first and keep the old one until its records are gone."""
    record = sample("apr_1")
    signed = replace(record, binding=bind(record, [OLD]))
    assert intact(signed, [OLD])
    assert intact(signed, [NEW, OLD])
    assert not intact(signed, [NEW])


def test_a_record_without_a_key_is_not_intact_under_keys():
    """Downgrading a record to the unkeyed hash is a forgery, and so is the reverse."""
    record = sample("apr_1")
    assert not intact(record, [NEW])
    assert not intact(replace(record, binding=bind(record, [NEW])))


def test_a_store_cannot_forge_an_approval_without_the_key():
    """With keys every decision is sealed to its record."""
    record = sample("apr_1")
    bound = replace(record, binding=bind(record, [NEW]))
    forged = ApprovalDecision(approved=True, by=Actor("mia"), decided_at=NOW)
    sealed = seal(bound, forged, [NEW])
    assert not intact(replace(bound, status="approved", decisions=(forged,)), [NEW])
    assert intact(replace(bound, status="approved", decisions=(sealed,)), [OLD, NEW])
    moved = replace(sealed, by=Actor("max"))
    assert not intact(replace(bound, status="approved", decisions=(moved,)), [NEW])


def test_a_seal_belongs_to_one_record():
    """A sealed yes cannot be carried over to another request."""
    first, second = (replace(r, binding=bind(r, [NEW])) for r in (sample("a"), sample("b")))
    answer = seal(first, yes("mia"), [NEW])
    assert not intact(replace(second, status="approved", decisions=(answer,)), [NEW])


@pytest.mark.parametrize(
    "decisions",
    [
        (),
        (yes("mia"),),
        (yes("mia"), yes("mia")),
        (yes("mia"), no("max")),
        (yes("mia"), yes("max"), no("eva")),
    ],
)
def test_a_status_that_no_decision_explains_is_not_intact(decisions):
    """A record that says approved needs its quorum of distinct approvers and no rejection."""
    record = sample("apr_1", quorum=2)
    for status in ("approved", "consumed"):
        assert not intact(replace(record, status=status, decisions=decisions))


@pytest.mark.parametrize("broken", ["", None, "\ud800", "é" * 64, 5])
def test_a_binding_that_is_no_hash_is_not_intact(broken):
    """Whatever a store returns as binding, checking it never raises."""
    assert not intact(replace(sample("apr_1"), binding=broken))


@pytest.mark.parametrize("value", [float("nan"), "\ud800", object(), {1: 2}])
def test_an_input_without_canonical_form_is_not_intact(value):
    """SI-7: what cannot be hashed is refused, not passed."""
    assert not intact(replace(sample("apr_1"), input=value))
