"""Strict delivery: every sink has taken the event, or the caller knows which has not."""

from __future__ import annotations

import anyio
import pytest

from capgate.audit import AuditFailure, Auditor, MemoryAudit


def auditor(*sinks, timeout=5.0):
    return Auditor(sinks, strict=True, timeout=timeout)


def broken(event):
    raise ValueError("canary")


async def async_broken(event):
    raise ValueError("canary")


async def hang(event):
    await anyio.sleep_forever()


class Later:
    """An async sink that keeps the ids of its events."""

    def __init__(self):
        self.ids = []

    async def __call__(self, event):
        await anyio.lowlevel.checkpoint()
        self.ids.append(event.execution_id)


@pytest.fixture(params=["in place", "queued"])
async def run(request):
    """Run an auditor's workers, or do not: strict means the same."""
    async with anyio.create_task_group() as group:

        async def start(audit):
            if request.param == "queued":
                await group.start(lambda task_status: audit.run(task_status=task_status))
            return audit

        yield start
        group.cancel_scope.cancel()


async def test_every_sink_has_the_event(run, make, plain):
    """When strict delivery returns, sync and async sinks have all taken the event."""
    memory, later = MemoryAudit(), Later()
    audit = await run(auditor(memory, later, plain(later)))
    await audit.emit_strict(make("exe_1"))
    await audit.emit_strict(make("exe_2"))
    assert len(memory.events) == 2
    assert sorted(later.ids) == ["exe_1", "exe_1", "exe_2", "exe_2"]


async def test_one_failure_starves_no_other(run, make, log):
    """All other sinks get the event, and the failure names those that did not."""
    memory, later = MemoryAudit(), Later()
    audit = await run(auditor(broken, memory, async_broken, later))
    with pytest.raises(AuditFailure) as caught:
        await audit.emit_strict(make("exe_1"))
    assert caught.value.sinks == ("broken[0]", "async_broken[2]")
    assert len(memory.events) == 1
    assert later.ids == ["exe_1"]
    assert "canary" not in repr(log) + str(caught.value)


async def test_a_hanging_sink_fails_in_time(run, make, log):
    """A sink that never answers is a failure after the timeout, not a hang."""
    later = Later()
    audit = await run(auditor(hang, later, timeout=0.01))
    with pytest.raises(AuditFailure) as caught:
        await audit.emit_strict(make("exe_1"))
    assert caught.value.sinks == ("hang[0]",)
    assert later.ids == ["exe_1"]


async def test_junk_is_a_failure(run, make, log):
    """A sink that returned a value may have written nothing: strict fails closed (SI-7)."""

    async def generator(event):
        yield

    audit = await run(auditor(generator, lambda event: event))
    with pytest.raises(AuditFailure) as caught:
        await audit.emit_strict(make())
    assert len(caught.value.sinks) == 2


async def test_a_strict_event_follows_the_queued_ones(run, make):
    """Order is kept between events that were emitted and events that were awaited."""
    later = Later()
    audit = await run(auditor(later))
    for number in range(3):
        pending = audit.emit(make(f"{number}.a"))
        if pending is not None:
            await pending
        await audit.emit_strict(make(f"{number}.b"))
    assert later.ids == ["0.a", "0.b", "1.a", "1.b", "2.a", "2.b"]


async def test_a_late_event_is_withdrawn(make, log):
    """An event that strict delivery gave up on is not written later behind its back."""
    ids, free = [], anyio.Event()

    async def slow(event):
        await free.wait()
        ids.append(event.execution_id)

    audit = auditor(slow, timeout=0.05)
    async with anyio.create_task_group() as group:
        await group.start(lambda task_status: audit.run(task_status=task_status))
        for number in range(3):
            audit.emit(make(str(number)))
        with pytest.raises(AuditFailure):
            await audit.emit_strict(make("started"))
        free.set()
        assert await audit.drain(5)
        group.cancel_scope.cancel()
    assert "started" not in ids


async def test_a_cancelled_caller_is_no_failure(run, make, log):
    """Cancellation while waiting goes to the caller; no sink is blamed for it."""
    audit = await run(auditor(hang))
    with anyio.move_on_after(0.01) as scope:
        await audit.emit_strict(make())
    assert scope.cancelled_caught
    assert log == []


async def test_an_interrupt_is_not_swallowed(make):
    """What a signal raises inside a sync sink goes on."""

    def interrupted(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await auditor(interrupted).emit_strict(make())
