"""What both checkers infer of engines, dependencies and what an application writes. Never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, ClassVar, assert_type

from capgate import (
    AccessRequest,
    Actor,
    AuditConfig,
    CancelToken,
    Context,
    Decision,
    DiscoveryScope,
    DomainError,
    Effect,
    Engine,
    FailureStage,
    Invocation,
    Pipeline,
    PolicyRequest,
    Redact,
    Retry,
    Skip,
    Stage,
    Step,
    allow,
    combine,
    deny,
    policy,
    requires,
)
from capgate.audit import AuditEvent, MemoryAudit


class Deps:
    url: str = ""


def value(invocation: Invocation) -> Deps:
    """Make deps."""
    return Deps()


async def awaitable(invocation: Invocation) -> Deps:
    """Make deps later."""
    return Deps()


@asynccontextmanager
async def entered(invocation: Invocation) -> AsyncGenerator[Deps]:
    """Make deps for the length of a call."""
    yield Deps()


assert_type(Engine("a"), Engine[None])
assert_type(Engine("a", version="1"), Engine[None])
assert_type(Engine("a", deps=3), Engine[None])
assert_type(Engine("a", deps_type=Deps), Engine[Deps])
assert_type(Engine("a", deps_type=Deps, deps=Deps()), Engine[Deps])
assert_type(Engine("a", deps_type=Deps, deps=value), Engine[Deps])
assert_type(Engine("a", deps_type=Deps, deps=awaitable), Engine[Deps])
assert_type(Engine("a", deps_type=Deps, deps=entered), Engine[Deps])


@policy("sync")
def judge(request: PolicyRequest) -> Decision:
    """Judge without dependencies."""
    assert_type(request.deps, object)
    assert_type(request.actor, Actor)
    return allow(seen=request.capability.id)


@policy("async", phases={"discovery", "execution"})
async def judge_later(request: PolicyRequest[Deps]) -> Decision:
    """Judge with dependencies, later."""
    assert_type(request.deps, Deps)
    return deny("No.", reason="x")


class Hours(Stage):
    """A sync stage."""

    name = "hours"
    failure_stage = FailureStage.POLICY

    def run(self, invocation: Invocation) -> None:
        """Note the call."""
        invocation.state["seen"] = invocation.actor.id
        invocation.on_settle(lambda: None)


class Quota(Stage):
    """An async stage that binds."""

    name = "quota"

    def bind(self, capability: Any) -> Step | Skip:
        """Bind."""
        return Step(self.run) if capability.side_effect == "write" else Skip("reads are free")

    async def run(self, invocation: Invocation) -> None:
        """Go on."""


class SoldOutError(DomainError):
    """A failure of the contract."""

    code = "SOLD_OUT"
    message = "Sold out."
    retryable = True
    effect: ClassVar[Effect] = Effect.NONE
    public_details = True


def permits(request: AccessRequest) -> bool:
    """Permit."""
    return request.actor.kind == "user"


async def sink(event: AuditEvent) -> None:
    """Take an event."""
    assert_type(event.to_dict(), dict[str, Any])


async def authenticate(credentials: Any) -> Actor | None:
    """Identify."""
    return Actor(str(credentials)) if credentials else None


def shown(total: int) -> int:
    """Redact."""
    return total // 10


engine = Engine(
    "shop",
    deps_type=Deps,
    policies=[judge, combine("both", judge_later)],
    pipeline=Pipeline.default().before("execution", Hours()).after("policy", Quota()),
    audit=AuditConfig([sink, MemoryAudit()], strict=True),
    authenticate=authenticate,
    authorize=permits,
    exceptions={KeyError: SoldOutError},
)


@engine.capability(
    "total",
    access=requires("orders:read"),
    retry=Retry(3),
    idempotent=True,
    errors=[SoldOutError],
    redact=Redact(output=shown),
    tags={"money"},
    annotations={"a": [1]},
)
async def total(id: str, ctx: Context[Deps]) -> int:
    """Use a context."""
    assert_type(ctx.deps, Deps)
    assert_type(ctx.actor, Actor)
    assert_type(ctx.attempt_number, int)
    assert_type(ctx.parent_execution_id, str | None)
    await ctx.progress(1, 2, "half")
    return len(id)


async def without(ctx: Context) -> None:
    """A context without dependencies."""
    assert_type(ctx.deps, None)


async def options(token: CancelToken) -> None:
    """Every option of a call."""
    await engine.invoke(
        total,
        {"id": "o"},
        actor=Actor("u"),
        surface="direct",
        deps=Deps(),
        cancel=token,
        timeout=3,
        correlation_id="c",
        idempotency_key="k",
    )
    found = await engine.discover("direct", scope=DiscoveryScope(tags={"money"}))
    assert_type([each.id for each in found], list[str])
    assert_type((await engine.explain(total, {"id": "o"})).verdict, str)
    assert_type(await engine.authenticate("token"), Actor)
    view = engine.on("http")
    assert_type(await view.invoke(total, {"id": "o"}), int)
    async with engine as entered_engine:
        assert_type(entered_engine, Engine[Deps])
    with engine.blocking() as sync:
        assert_type(sync.invoke(total, {"id": "o"}), int)
