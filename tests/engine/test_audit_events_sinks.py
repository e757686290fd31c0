"""Sinks that fail, hang or lie, seen from a call: nothing they do changes an outcome."""

from __future__ import annotations

import anyio
import pytest
import structlog.testing
import trio.testing

from capgate import Actor, AuditConfig, ConfigurationError, DomainError, Engine, Limits
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")


class SoldOutError(DomainError):
    message = "Sold out."


def raises(event):
    raise OSError("canary")


async def raises_later(event):
    raise OSError("canary")


async def hangs(event):
    await anyio.sleep_forever()


async def dawdles(event):
    for _ in range(20):
        await anyio.lowlevel.checkpoint()


def answers(event):
    return "junk"


async def answers_later(event):
    return "junk"


def deceives(event):
    """Look synchronous, and return an awaitable that fails."""
    return raises_later(event)


def meddles(event):
    """Try to change the event that other sinks get."""
    event.data["canary"] = 1


SINKS = {
    "raises": raises,
    "raises_later": raises_later,
    "hangs": hangs,
    "dawdles": dawdles,
    "answers": answers,
    "answers_later": answers_later,
    "deceives": deceives,
    "meddles": meddles,
}


def world(*sinks, **settings):
    """Build an engine with `sinks` before one that remembers, and three capabilities."""
    kept = MemoryAudit()
    engine = Engine(
        "test",
        audit=[*sinks, kept],
        limits=Limits(audit_timeout=0.01),
        on_internal_error=lambda _: None,
        **settings,
    )

    @engine.capability("good")
    async def good() -> int:
        """Give one."""
        return 1

    @engine.capability("bad")
    async def bad() -> int:
        """Fail."""
        raise SoldOutError

    @engine.capability("slow", timeout=0.001)
    async def slow() -> int:
        """Wait."""
        await anyio.sleep_forever()

    return engine, kept


EXPECTED = {
    "good": ("completed", ["requested", "started", "completed"]),
    "bad": ("failed", ["requested", "started", "failed"]),
    "slow": ("cancelled", ["requested", "started", "cancelled"]),
    "nope": ("failed", ["requested", "denied"]),
}


@pytest.mark.parametrize("entered", [False, True])
@pytest.mark.parametrize("sink", SINKS)
async def test_a_bad_sink_changes_no_outcome_and_starves_nobody(sink, entered):
    """Whatever a sink does, every outcome is the same and the other sink gets every event."""
    engine, kept = world(SINKS[sink])
    outcomes = {}
    with structlog.testing.capture_logs():
        if entered:
            async with engine:
                for name in EXPECTED:
                    outcomes[name] = await engine.attempt(name, actor=DANA)
        else:
            for name in EXPECTED:
                outcomes[name] = await engine.attempt(name, actor=DANA)
    for name, (status, types) in EXPECTED.items():
        assert outcomes[name].status == status
        own = [e for e in kept.events if e.execution_id == outcomes[name].execution_id]
        assert [event.type.split(".")[1] for event in own] == types
        assert not any("canary" in event.data for event in own)


async def test_a_failing_sink_is_reported_once_per_kind():
    """A failing sink is logged once per kind and minute, by name and type, never by text."""
    engine, _ = world(raises)
    with structlog.testing.capture_logs() as logs:
        for _ in range(5):
            await engine.invoke("good", actor=DANA)
    failures = [entry for entry in logs if entry["event"] == "audit_sink_failed"]
    assert len(failures) == 1
    assert "raises" in failures[0]["sink"]
    assert "canary" not in repr(logs)


@pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})]
)
async def test_leaving_an_engine_drains_what_is_queued():
    """A sink that takes its time, within its limit for each event, gets every event in order."""
    got, kept = [], MemoryAudit()

    async def slow(event):
        await anyio.sleep(1)
        got.append((event.execution_id, event.type))

    engine = Engine("test", audit=[slow, kept], limits=Limits(audit_timeout=5))

    @engine.capability("cap")
    async def cap() -> int:
        """Give one."""
        return 1

    async with engine:
        for _ in range(10):
            await engine.invoke("cap", actor=DANA)
        assert got == []
    assert got == [(event.execution_id, event.type) for event in kept.events]


async def test_a_hanging_sink_does_not_delay_a_call_of_an_entered_engine():
    """Delivery is off the hot path: a call ends while its event is still on its way."""
    gate, got = anyio.Event(), []

    async def waits(event):
        await gate.wait()
        got.append(event.type)

    engine = Engine("test", audit=[waits])

    @engine.capability("cap")
    async def cap() -> int:
        """Give one."""
        return 1

    async with engine:
        assert await engine.invoke("cap", actor=DANA) == 1
        assert got == []
        gate.set()
    assert got == ["capability.requested", "capability.started", "capability.completed"]


@pytest.mark.parametrize("sink", [None, 3, "sink", MemoryAudit, [3], {"a": 1}, [None]])
def test_what_is_no_sink_is_refused(sink):
    """A sink that cannot be called, or a class, is a ConfigurationError at once."""
    if sink is None:
        assert Engine("test", audit=None).name == "test"
        return
    with pytest.raises(ConfigurationError):
        Engine("test", audit=sink)
    with pytest.raises(ConfigurationError):
        AuditConfig(sink)


async def test_a_sink_that_cancels_itself_is_contained():
    """A cancellation that a sink made up reaches neither the call nor the caller."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            saved = cancelled

    def stray(event):
        raise saved

    async def stray_later(event):
        raise saved

    for sink in (stray, stray_later):
        engine, kept = world(sink)
        with structlog.testing.capture_logs():
            assert await engine.invoke("good", actor=DANA) == 1
        assert len(kept.events) == 3
