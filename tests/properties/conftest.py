"""A call made of whatever features, for the properties of how calls end."""

from __future__ import annotations

from collections import defaultdict
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.lowlevel import checkpoint

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    CancelToken,
    Context,
    DomainError,
    Engine,
    Limits,
    Pipeline,
    Retry,
    Stage,
    allow,
    policy,
)
from capgate.approvals import ApprovalDecision
from capgate.audit import AuditConfig
from capgate.call import current_watch

KEEPER = Actor("usr_keeper")
CALLER = Actor("usr_caller")
TERMINAL = {"denied", "completed", "failed", "cancelled"}
# What an approver decides is no execution.
DECIDED = {"capability.approved", "capability.rejected"}


class Transient(DomainError):
    """Worth another try."""

    retryable = True


class Watching(Stage):
    """A custom stage that waits a little, before and after the outcome is known."""

    name = "watching"

    def __init__(self, asked, settled):
        self.asked = asked
        self.settled = settled

    async def run(self, invocation):
        invocation.on_settle(self.settle)
        self.asked.append(True)
        await checkpoint()

    async def settle(self):
        await checkpoint()
        self.settled.append(True)


class World:
    """One engine with these features, and everything that can be seen of its calls."""

    awaits = True

    def __init__(self, features):
        self.features = features
        self.events = defaultdict(list)
        self.entered = 0
        self.asked = []
        self.settled = []
        self.entered_deps = self.left_deps = 0
        self.token = CancelToken()
        self.engine = Engine("world", **self.settings())
        fields = {"side_effect": "write", "idempotent": True}
        if "approval" in features or "inline approval" in features:
            fields["approval"] = ApprovalRule()
        if "retry" in features:
            fields["retry"] = Retry(attempts=3)
        if "limits" in features:
            fields["max_concurrency"] = 1
        self.engine.capability("job", **fields)(self.job())
        self.engine.capability("inner", access="public", side_effect="write")(self.inner())

    def settings(self):
        given = {
            "audit": AuditConfig(self.sink, strict="strict" in self.features),
            "limits": Limits(max_concurrency=2 if "limits" in self.features else None),
            "jitter": lambda: 0.0,
        }
        if "policies" in self.features:
            given["policies"] = [self.policy("before"), self.policy("late", "execution")]
        if "inline approval" in self.features:
            given["approvals"] = ApprovalConfig(handler=self.approve)
        if "settle" in self.features:
            stage = Watching(self.asked, self.settled)
            given["pipeline"] = Pipeline.default().before("execution", stage)
        if "deps" in self.features:
            given["deps"] = self.deps
        return given

    async def sink(self, event):
        await checkpoint()
        if event.type not in DECIDED:
            self.events[event.execution_id].append(event)
        await checkpoint()

    @staticmethod
    def policy(name, phase="invocation"):
        @policy(name, phases={phase})
        async def asked(request):
            await checkpoint()
            return allow()

        return asked

    async def approve(self, record):
        await checkpoint()
        return ApprovalDecision(approved=True, by=KEEPER)

    @asynccontextmanager
    async def deps(self, invocation):
        await checkpoint()
        self.entered_deps += 1
        try:
            yield "deps"
        finally:
            self.left_deps += 1

    def job(self):
        async def job(ctx: Context) -> str:
            """Do it."""
            self.entered += 1
            await checkpoint()
            if "retry" in self.features and ctx.attempt_number < 3:
                raise Transient
            if "nested" in self.features:
                await ctx.invoke("inner")
            return await self.finish()

        return job

    async def finish(self):
        try:
            await checkpoint()
        except anyio.get_cancelled_exc_class():
            if "swallow" not in self.features:
                raise
        finally:
            if "shield" in self.features:
                with anyio.CancelScope(shield=True):
                    await checkpoint()
        return "done"

    def inner(self):
        async def inner() -> str:
            """Do the inner thing."""
            await checkpoint()
            return "inner"

        return inner

    async def call(self):
        options = {"actor": CALLER}
        if "token" in self.features:
            options["cancel"] = self.token
        if "timeout" in self.features:
            options["timeout"] = 60
        if "idempotency" in self.features:
            options["idempotency_key"] = "key-1"
        return await self.engine.attempt("job", {}, **options)

    def check_evidence(self, outcome):
        """Every execution was requested once, first, and ended once, last, as its outcome says."""
        for events in self.events.values():
            types = [event.type for event in events]
            assert types.count("capability.requested") == 1, types
            assert types[0] == "capability.requested", types
            assert [is_terminal(event) for event in events].count(True) == 1, types
            assert is_terminal(events[-1]), types
        outer = [events for events in self.events.values() if events[0].capability_id == "job"]
        assert len(outer) == 1
        last = outer[0][-1]
        if outcome is not None:
            expected = outcome.status.replace("approval-required", "approval_requested")
            assert last.type == f"capability.{expected}"
        started = any(event.type == "capability.started" for event in outer[0])
        if not self.entered and "effect" in last.data:
            assert last.data["effect"] == "none"
        if self.entered and last.type == "capability.cancelled":
            assert started
            assert last.data["effect"] in {"unknown", "done"}

    async def check_nothing_left(self):
        """No task, timer, place, listener or live call is left; what was entered was left."""
        await anyio.wait_all_tasks_blocked()
        tasks = [f"{task.name} {task.coro!r}" for task in anyio.get_running_tasks()]
        assert not any("TrioWatch.after" in task or "shielded" in task for task in tasks), tasks
        assert not any(current_watch().lanes.values())
        assert self.token._listeners == {}
        assert len(self.engine._live) == 0
        if "limits" in self.features:
            assert self.engine._runtime.places.used == 0
        assert self.entered_deps == self.left_deps
        if self.awaits:
            assert self.asked == self.settled

    async def check_key(self):
        """The idempotency key has been settled or freed: a repeat is never told to wait."""
        self.token = CancelToken()
        again = await self.call()
        assert again.status == "completed" or again.error.code != "IDEMPOTENCY_CONFLICT"


def is_terminal(event):
    kind = event.type.removeprefix("capability.")
    return kind in TERMINAL or (kind == "approval_requested" and event.data["suspended"])


class Quiet(World):
    """A world whose sink is synchronous, so that it is told even when nothing can be awaited."""

    awaits = False

    def sink(self, event):
        if event.type not in DECIDED:
            self.events[event.execution_id].append(event)


@pytest.fixture(scope="session")
def make_world():
    """Build an engine with some features; `quiet` for a synchronous sink."""

    def make(features, *, quiet=False):
        return Quiet(features) if quiet else World(features)

    return make
