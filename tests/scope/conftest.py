"""A rig for the truth table of the composite scope: one handler, its trail, clocks that jump."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import structlog.testing
import trio.testing

from capgate import Context, Engine, Limits
from capgate.audit import MemoryAudit
from capgate.call import current_watch


class JumpingLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose clock jumps to the next timer as soon as nothing else is to do."""

    def __init__(self):
        super().__init__()
        self.virtual_now = 1000.0
        self._real_select = self._selector.select
        self._selector.select = self._select

    def time(self):
        return self.virtual_now

    def _select(self, timeout=None):
        events = self._real_select(None if timeout is None else 0)
        if not events and timeout and self._scheduled:
            self.virtual_now = max(self.virtual_now, self._scheduled[0]._when)
        return events


BACKENDS = {
    "asyncio": lambda: ("asyncio", {"loop_factory": JumpingLoop}),
    "uvloop": lambda: ("asyncio", {"use_uvloop": True}),
    "trio": lambda: ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}),
}


@pytest.fixture(params=BACKENDS)
def anyio_backend(request):
    """Every test runs on each back end; the clock is virtual, except that of uvloop."""
    return BACKENDS[request.param]()


class Rig:
    """One engine with one write capability, `job`, and what can be seen of a call of it."""

    def __init__(self, **settings: Any) -> None:
        self.audit = MemoryAudit()
        settings.setdefault("audit", self.audit)
        settings.setdefault("limits", Limits(cleanup_grace=60))
        settings.setdefault("jitter", lambda: 0.0)
        self.engine: Engine = Engine("rig", **settings)
        self.entered = 0
        self.running = anyio.Event()

    def job(self, body: Callable[[Context], Awaitable[str]], **options: Any) -> None:
        """Declare the capability; `body` gets the context and returns the output."""

        async def job(ctx: Context) -> str:
            """Do it."""
            self.entered += 1
            self.running.set()
            return await body(ctx)

        fields = {"access": "public", "side_effect": "write", **options}
        self.engine.capability("job", **fields)(job)

    def thread_job(self, body: Callable[[], str], **options: Any) -> None:
        """Declare the capability with a synchronous handler."""

        def job() -> str:
            """Do it in a thread."""
            self.entered += 1
            return body()

        fields = {"access": "public", "side_effect": "write", **options}
        self.engine.capability("job", **fields)(job)

    async def attempt(self, **options: Any) -> Any:
        """Call `job`."""
        return await self.engine.attempt("job", {}, **options)

    async def forever(self, ctx: Context) -> str:
        """Wait until interrupted: a body."""
        await anyio.sleep_forever()
        raise AssertionError("never reached")

    async def done(self, ctx: Context) -> str:
        """Return at once: a body."""
        return "done"

    @staticmethod
    def told(outcome: Any) -> tuple[Any, ...]:
        """Return what a caller learns: code, stage, retryable, effect; or output, late, effect."""
        if outcome.status == "completed":
            return ("Completed", outcome.output, outcome.late, outcome.effect.value)
        error = outcome.error
        assert (error.execution_id, error.effect) == (outcome.execution_id, outcome.effect)
        facts = (error.code.value, error.stage.value, error.retryable, outcome.effect.value)
        return (type(outcome).__name__, *facts)

    @property
    def trail(self) -> list[str]:
        """The audit's event types, without their common prefix."""
        return [event.type.removeprefix("capability.") for event in self.audit.events]

    def saw(self, *trail: str, entered: int = 1, **data: Any) -> None:
        """Check the events, the data of the last one, and how often the handler was entered.

        `cleanup_overrun` is checked always: absent unless given.
        """
        assert self.trail == list(trail)
        assert self.entered == entered
        last = self.audit.events[-1].data
        expected = {"cleanup_overrun": None, **data}
        assert {name: last.get(name) for name in expected} == expected


async def _tasks() -> dict[int, str]:
    await anyio.wait_all_tasks_blocked()
    # The watchdog of a trio run is a task of its own while a deadline it once saw lies ahead.
    known = ("TestRunner", "TrioWatch._sleep")
    return {
        task.id: f"{task.name} {task.coro!r}"
        for task in anyio.get_running_tasks()
        if not any(part in f"{task.name} {task.coro!r}" for part in known)
    }


@pytest.fixture
async def make_rig():
    """Build rigs, and prove at the end that their calls left nothing behind."""
    before = await _tasks()
    rigs = []

    def make(**settings):
        rigs.append(Rig(**settings))
        return rigs[-1]

    yield make
    after = await _tasks()
    assert {id_: name for id_, name in after.items() if id_ not in before} == {}
    assert not any(current_watch().lanes.values())
    for rig in rigs:
        assert len(rig.engine._live) == 0
        assert rig.engine._runtime.threads.used == 0
        assert rig.engine._runtime.threads.waiting == 0


@pytest.fixture
async def rig(make_rig):
    """One rig."""
    return make_rig()


@pytest.fixture
def block():
    """Keep the event loop from running for so many seconds, by its own clock."""

    def blocked(seconds):
        if current_watch().name == "trio":
            trio.lowlevel.current_clock().jump(seconds)
        elif isinstance(running := asyncio.get_running_loop(), JumpingLoop):
            running.virtual_now += seconds
        else:
            time.sleep(seconds)

    return blocked


@pytest.fixture(autouse=True)
def log():
    """What is logged during the test, as dictionaries."""
    with structlog.testing.capture_logs() as entries:
        yield entries
