"""An engine whose policies are under test, and what is known of its calls."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from capgate import Actor, Engine
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Noon:
    def now(self):
        return NOON


class Court:
    """An engine that asks the given policies about every call of `act`."""

    def __init__(self, *policies, own=(), **settings) -> None:
        self.audit, self.ran = MemoryAudit(), []
        self.engine = Engine(
            "test",
            policies=policies,
            audit=self.audit,
            clock=Noon(),
            on_internal_error=lambda error: None,
            **settings,
        )

        @self.engine.capability("act", policies=own)
        async def act(n: int = 1) -> int:
            """Act."""
            self.ran.append(n)
            return n

    async def judge(self, input=None, **options):
        return await self.engine.attempt("act", input, actor=DANA, **options)

    def decisions(self) -> list[tuple[str, str]]:
        """What the last event says of each policy, in order."""
        found = self.audit.events[-1].data["policy_decisions"]
        return [(each["policy"], each["decision"]) for each in found]


@pytest.fixture
def court():
    """The class `Court`: `court(*policies, own=[…], **settings)`."""
    return Court
