"""The audit that tests look at."""

from __future__ import annotations

import pytest

from capgate.testing import CapturedAudit, TestEngine

CALL = ["capability.requested", "capability.started", "capability.completed"]


async def captured(shop):
    engine = TestEngine(shop.engine)
    await engine.invoke(shop.echo, {"text": "hello"})
    return engine.audit


async def test_it_keeps_events_in_order(shop):
    """Events, their types and those of one type are there, oldest first."""
    audit = await captured(shop)
    assert audit.types == [event.type for event in audit.events] == CALL
    assert [event.type for event in audit.of_type("capability.started")] == [CALL[1]]


async def test_the_right_sequence_passes(shop):
    """Exactly the captured types in their order pass."""
    (await captured(shop)).assert_sequence(*CALL)


@pytest.mark.parametrize(
    "wrong",
    [[], CALL[:2], [*CALL, "capability.failed"], [CALL[0], CALL[2], CALL[1]], ["requested"]],
)
async def test_any_other_sequence_fails(shop, wrong):
    """Missing, surplus, swapped and abbreviated types fail."""
    audit = await captured(shop)
    with pytest.raises(AssertionError):
        audit.assert_sequence(*wrong)


async def test_the_failure_can_be_read(shop):
    """The failure shows what was captured, and marks each line that was expected otherwise."""
    audit = await captured(shop)
    with pytest.raises(AssertionError) as failure:
        audit.assert_sequence(CALL[0], "capability.denied")
    assert str(failure.value).splitlines() == [
        "3 events captured, 2 expected:",
        "    1  capability.requested",
        "!   2  capability.started  (expected: capability.denied)",
        "!   3  capability.completed  (expected: nothing)",
    ]


def test_a_missing_event_is_nothing():
    """An event that was expected and never came is shown as nothing."""
    with pytest.raises(AssertionError, match=r"1  nothing  \(expected: capability.started\)"):
        CapturedAudit().assert_sequence("capability.started")


async def test_clear_forgets(shop):
    """After `clear` only what comes next is looked at."""
    audit = await captured(shop)
    audit.clear()
    audit.assert_sequence()
    assert repr(audit) == "CapturedAudit([])"
