"""Calls through an engine: P1 to P7, each against the floor of its own event loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio

from bench import floor
from bench.measure import Bound, Workload
from capgate import (
    Actor,
    AuditConfig,
    CapabilityError,
    Decision,
    Engine,
    PolicyRequest,
    allow,
    deny,
    policy,
)
from capgate.audit import MemoryAudit

ACTOR = Actor("u_dana", permissions=frozenset({"orders:read"}))
READ = {"side_effect": "read", "risk": "low"}


@policy("same-org")
def same_org(request: PolicyRequest) -> Decision:
    """Let pass, having looked at the actor."""
    return allow() if request.actor.id else deny()


@policy("small-pages")
def small_pages(request: PolicyRequest) -> Decision:
    """Let pass, having looked at the input."""
    return allow() if request.arguments["limit"] <= 100 else deny()


@policy("known-surface")
def known_surface(request: PolicyRequest) -> Decision:
    """Let pass, having looked at the surface."""
    return allow() if request.surface == "direct" else deny()


@policy("closed")
def closed(request: PolicyRequest) -> Decision:
    """Refuse."""
    return deny("Closed for the day.")


@policy("visible", phases={"discovery"})
def visible(request: PolicyRequest) -> Decision:
    """Show everything."""
    return allow()


@dataclass(frozen=True)
class Case:
    """One row: its name in the spec, what runs, its bound, and the floor it is held against."""

    key: str
    work: str
    run: Workload
    bound: Bound
    floor: str = "floor"
    share: float = 1.0  # of a round's calls, for work that is much more than a call


def governed_engine(handler: Any, *, hash_inputs: bool = False) -> tuple[Engine, Any, MemoryAudit]:
    """P1's engine: three policies, the default deadline, a sink."""
    sink = MemoryAudit()
    audit = AuditConfig([sink], hash_inputs=hash_inputs)
    engine = Engine("bench", policies=[same_org, small_pages, known_surface], audit=audit)
    return engine, engine.capability("orders.search", **READ)(handler), sink


def governed(handler: Any = floor.search, *, hash_inputs: bool = False) -> Workload:
    """P1: an actor's calls through that engine."""
    engine, handle, sink = governed_engine(handler, hash_inputs=hash_inputs)
    return invoking(engine, handle, sink.clear)


def bare() -> Workload:
    """P2: an actor and the default deadline; no policies, no sink."""
    engine = Engine("bench")
    return invoking(engine, engine.capability("orders.search", **READ)(floor.search))


def invoking(engine: Engine, handle: Any, after: Callable[[], None] = lambda: None) -> Workload:
    """Invoke over and over; forget the events between rounds."""

    async def run(calls: int) -> None:
        for _ in range(calls):
            await engine.invoke(handle, floor.CALL, actor=ACTOR)
        after()

    return run


def refused(capability: str, policies: list[Any], *, raising: bool) -> Workload:
    """P6: a call that a gate ends."""
    sink = MemoryAudit()
    engine = Engine("bench", policies=policies, audit=sink)
    engine.capability("orders.search", **READ)(floor.search)

    async def attempt(calls: int) -> None:
        for _ in range(calls):
            await engine.attempt(capability, floor.CALL, actor=ACTOR)
        sink.clear()

    async def invoke(calls: int) -> None:
        for _ in range(calls):
            try:
                await engine.invoke(capability, floor.CALL, actor=ACTOR)
            except CapabilityError:
                continue
        sink.clear()

    return invoke if raising else attempt


def discovering(capabilities: int = 300) -> Workload:
    """P7: a walk over many capabilities."""
    engine = Engine("bench", policies=[visible])
    for number in range(capabilities):
        engine.capability(f"orders.search_{number}", **READ)(floor.search)

    async def run(calls: int) -> None:
        for _ in range(calls):
            found = await engine.discover("direct", actor=ACTOR)
            assert len(found) == capabilities

    return run


def scoped(workload: Workload) -> Workload:
    """The same calls inside a scope of the caller's own."""

    async def run(calls: int) -> None:
        with anyio.fail_after(600):
            await workload(calls)

    return run


def refusals() -> list[Case]:
    """P6, by code and by how the caller learns of it."""
    passing, denying = [same_org, small_pages, known_surface], [same_org, small_pages, closed]
    gates = {
        "not found": ("orders.missing", passing),
        "policy denial": ("orders.search", denying),
    }
    return [
        Case(
            "P6",
            f"refusal: {name}, {how}",
            refused(*gate, raising=how == "raised"),
            Bound(1.5, 1.0),
        )
        for name, gate in gates.items()
        for how in ("as an outcome", "raised")
    ]


def on_asyncio() -> list[Case]:
    """The cases whose floor is asyncio."""
    suspending, hashed = governed(floor.search_and_wait), governed(hash_inputs=True)
    return [
        Case("P1", "governed call", governed(), Bound(2.5, 2.2)),
        Case("P1", "P1 inside a caller's scope", scoped(governed()), Bound(3.2, 2.9)),
        Case("P2", "no policies, no sink", bare(), Bound(2.0, 1.7)),
        Case("P2", "P2 inside a caller's scope", scoped(bare()), Bound()),
        Case("P3", "P1 with the input hash", hashed, Bound(3.3, 2.6)),
        Case("P4", "P1, its handler suspends once", suspending, Bound(2.4, 2.0), floor="waiting"),
        *refusals(),
        Case("P7", "discovery of 300", discovering(), Bound(20, 13), share=0.02),
    ]


def on_trio() -> list[Case]:
    """The cases whose floor is trio."""
    return [Case("P5", "P1 on trio", governed(), Bound(4.5, 3.2))]
