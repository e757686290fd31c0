"""One small world around a real engine: a clock to turn, an audit to read, a store to break."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from capgate import Actor, ApprovalRequired, Engine
from capgate.approvals import MemoryApprovals
from capgate.audit import MemoryAudit

DANA = Actor("u_dana", permissions={"refund"})
MIA = Actor("u_mia")


class Clock:
    """Wall time that only a test moves."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.time

    def advance(self, seconds) -> None:
        self.time += timedelta(seconds=seconds)


class World:
    """An engine and what surrounds it; `add` declares `act`, which notes its runs."""

    def __init__(self, **settings) -> None:
        self.clock = settings.setdefault("clock", Clock())
        self.audit = settings.setdefault("audit", MemoryAudit())
        self.reported, self.ran = [], []
        settings.setdefault("on_internal_error", self.reported.append)
        self.engine = Engine("test", **settings)

    def add(self, id="act", handler=None, **fields):
        async def act(n: int = 1) -> int:
            self.ran.append(n)
            return n

        self.engine.capability(id, **{"description": "Act.", **fields})(handler or act)
        return self

    async def call(self, input=None, *, id="act", actor=DANA, **options):
        return await self.engine.attempt(id, input, actor=actor, **options)

    async def asked(self, input=None, **options):
        """Call, and return the request for approval that came of it."""
        outcome = await self.call(input, **options)
        assert isinstance(outcome, ApprovalRequired), outcome
        return outcome.approval

    async def granted(self, input=None, *, by=MIA, **options):
        """Call, have the request approved, and return the approved record."""
        record = await self.asked(input, **options)
        return await self.engine.approvals.approve(record.id, by=by)

    async def resume(self, record, **options):
        return await self.engine.attempt_resume(record.id, **options)

    async def status(self, record) -> str:
        return (await self.engine.approvals.get(record.id)).status.value

    def told(self) -> list[str]:
        return [event.type.removeprefix("capability.") for event in self.audit.events]

    def last(self) -> dict:
        return dict(self.audit.events[-1].data)


class Fragile:
    """Approvals in memory that fail, or lose the answer of, the operations a test names."""

    durable = False

    def __init__(self) -> None:
        self.memory = MemoryApprovals()
        self.fails, self.loses, self.calls = set(), set(), []
        self.alter = lambda record: record
        self.before = {}

    def __getattr__(self, name):
        real = getattr(self.memory, name)

        async def operation(*args, **named):
            self.calls.append(name)
            if name in self.before:
                await self.before[name]()
            if name in self.fails:
                raise ConnectionError("canary: pg://secret")
            answer = await real(*args, **named)
            if name in self.loses:
                raise ConnectionError("canary: pg://secret")
            return self.alter(answer) if name == "get" and answer is not None else answer

        return operation


@pytest.fixture
def world():
    """The class `World`: `world(**settings).add(**fields)`."""
    return World


@pytest.fixture
def store():
    """A store of approvals that can be broken."""
    return Fragile()
