"""The contract of every `ApprovalStore`: what is kept, without loss or sharing, and found."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from capgate.approvals import ApprovalStatus, intact
from capgate.call import Actor
from capgate.testing.check import expect
from capgate.testing.sample_approvals import NOW, no, open_record, sample, yes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from capgate.approvals import ApprovalStore
    from capgate.errors import JSON

_INPUTS: Final[tuple[JSON, ...]] = (
    None,
    dict[str, object](),
    list[object](),
    "",
    "hello",
    "123",
    "1e400",
    "true",
    "null",
    '{"a": 1}',
    '"quoted"',
    "a\x00b",
    "\x00",
    "line\u2028feed \u00e9 \U0001f600",
    0,
    -1,
    2**53,
    2**53 + 1,
    -(10**40),
    10**400,
    1.5,
    -0.0,
    1e300,
    5e-324,
    True,
    False,
    {"": None, "\x00": "\x00", "n": [1, 1.0, True, "1", None, dict[str, object]()]},
    {"z": 1, "a": {"\U0001f600": [list[object]()], "\ufb33": "0"}},
)


async def keeps_a_record_as_it_is(store: ApprovalStore) -> None:
    """What is created is what is read, field by field."""
    record = sample("apr_1", quorum=2, allow_self=True, correlation_id=None, idempotency_key=None)
    await store.create(record)
    expect(await store.get("apr_1") == record, "the record comes back equal")


async def knows_no_record_before_it_is_created(store: ApprovalStore) -> None:
    """An unknown id is None, whatever it looks like."""
    for unknown in ("apr_1", "", "\x00", "' OR 1=1 --", "%"):
        expect(await store.get(unknown) is None, "an unknown id is None")


async def refuses_an_id_twice(store: ApprovalStore) -> None:
    """A second record with the same id is a ValueError, and the first one stays."""
    first = sample("apr_1")
    await store.create(first)
    try:
        await store.create(sample("apr_1", {"other": True}))
    except ValueError:
        expect(await store.get("apr_1") == first, "the first record stays")
    else:
        raise AssertionError("an id is taken only once")


async def keeps_every_input(store: ApprovalStore) -> None:
    """Inputs come back with their exact types: `"123"` is no number, None is not `{}`."""
    for place, value in enumerate(_INPUTS):
        await store.create(sample(f"apr_{place}", value))
    for place, value in enumerate(_INPUTS):
        record = await store.get(f"apr_{place}")
        expect(record is not None, f"input {place} was stored")
        if record is not None:
            expect(_exact(record.input) == _exact(value), f"input {place} came back as it was")
            expect(
                _exact(record.shown_input) == _exact(value),
                f"shown input {place} came back as it was",
            )
            expect(intact(record), f"record {place} still matches its binding")


async def keeps_what_is_shown_apart_from_what_is_true(store: ApprovalStore) -> None:
    """`shown_input` is stored beside `input`, not instead of it."""
    await store.create(sample("apr_1", {"card": "4111"}, shown_input={"card": "****"}))
    (record,) = await store.find()
    expect(record.input == {"card": "4111"}, "the true input")
    expect(record.shown_input == {"card": "****"}, "the shown input")


async def keeps_the_actor_in_full(store: ApprovalStore) -> None:
    """Kinds of attributes that JSON does not have come back as they were."""
    attributes: dict[str, object] = {
        "limit": Decimal("10.50"),
        "teams": {"a", "b"},
        "since": datetime(2020, 1, 1, tzinfo=UTC),
        "nested": {"$set": [1, (2.0, None)], "text": "1"},
    }
    actor = Actor("dana", display_name="D", permissions={"p"}, attributes=attributes)
    await store.create(sample("apr_1", actor=actor))
    (record,) = await store.find()
    expect(dict(record.actor.attributes) == attributes, "attributes")
    expect(record.actor.permissions == frozenset({"p"}), "permissions")
    expect(intact(record), "the record still matches its binding")


async def keeps_microseconds(store: ApprovalStore) -> None:
    """Times come back exact, as aware instants, whatever zone they were given in."""
    moment = datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=UTC)
    await store.create(
        sample("apr_1", requested_at=moment, expires_at=moment + timedelta.resolution)
    )
    (record,) = await store.find()
    expect(record.requested_at == moment, "requested_at")
    expect(record.expires_at == moment + timedelta.resolution, "expires_at")


async def shares_nothing_with_its_callers(store: ApprovalStore) -> None:
    """Changing a record that was handed in or out changes nothing stored."""
    handed_in = sample("apr_1", {"lines": [1]})
    await store.create(handed_in)
    handed_in.input["lines"].append(2)
    for handed_out in (*await store.find(), await store.get("apr_1")):
        if handed_out is not None:
            handed_out.input["lines"].append(3)
            handed_out.shown_input["lines"].clear()
            handed_out.approver_rules[0]["requires"].clear()
    expect(await store.get("apr_1") == sample("apr_1", {"lines": [1]}), "stored as created")


async def finds_by_every_filter(store: ApprovalStore) -> None:
    """Filters combine with and; without any, everything is found."""
    await store.create(sample("apr_1"))
    await open_record(store, "apr_2", yes("mia"))
    await open_record(store, "apr_3", no("mia"))
    await store.create(sample("apr_4", capability_id="orders.ship", actor=Actor("bob")))
    await store.create(sample("apr_5", actor=Actor("bob")))
    pending = ApprovalStatus.PENDING
    for wanted, found in (
        ("12345", await store.find()),
        ("145", await store.find(status=pending)),
        ("3", await store.find(status=ApprovalStatus.REJECTED)),
        ("1235", await store.find(capability_id="orders.refund")),
        ("45", await store.find(actor_id="bob")),
        ("1", await store.find(pending, "orders.refund", "dana")),
        ("5", await store.find(capability_id="orders.refund", actor_id="bob")),
        ("", await store.find(actor_id="%")),
    ):
        expect([r.id for r in found] == [f"apr_{n}" for n in wanted], f"finds {wanted or 'none'}")


async def pages_without_gaps(store: ApprovalStore) -> None:
    """Pages follow creation, not ids or changes, and stay right while records change."""
    created = ["apr_c", "apr_a", "apr_e", "apr_b", "apr_d"]
    for name in created:
        await store.create(sample(name))
    first = await store.find(limit=2)
    expect([r.id for r in first] == created[:2], "the first page")
    await store.decide("apr_a", yes("mia"), NOW)
    await store.create(sample("apr_0"))
    second = await store.find(limit=2, after="apr_a")
    expect([r.id for r in second] == created[2:4], "the second page")
    last = await store.find(ApprovalStatus.PENDING, limit=2, after="apr_b")
    expect([r.id for r in last] == ["apr_d", "apr_0"], "the last page")
    await store.decide("apr_c", yes("mia"), NOW)
    approved = await store.find(ApprovalStatus.APPROVED)
    expect([r.id for r in approved] == created[:2], "in the order of creation")
    expect(not await store.find(after="apr_0"), "nothing after the last")
    expect(not await store.find(after="apr_unknown"), "nothing after an unknown id")


async def refuses_an_empty_page(store: ApprovalStore) -> None:
    """A limit below 1 is a ValueError."""
    try:
        await store.find(limit=0)
    except ValueError:
        return
    raise AssertionError("a limit of 0 is refused")


def _exact(value: JSON) -> str:
    # Unlike ==, text tells 1, 1.0 and True apart, and -0.0 from 0.0; order is no difference.
    return json.dumps(value, sort_keys=True)


KEPT: Final[tuple[Callable[[ApprovalStore], Awaitable[None]], ...]] = (
    keeps_a_record_as_it_is,
    knows_no_record_before_it_is_created,
    refuses_an_id_twice,
    keeps_every_input,
    keeps_what_is_shown_apart_from_what_is_true,
    keeps_the_actor_in_full,
    keeps_microseconds,
    shares_nothing_with_its_callers,
    finds_by_every_filter,
    pages_without_gaps,
    refuses_an_empty_page,
)
