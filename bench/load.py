"""How an engine carries load: many calls at once, and approvals that wait."""

from __future__ import annotations

import statistics
import time
import tracemalloc
from typing import Any

import anyio

from bench import floor
from bench.cases import ACTOR, READ, governed_engine
from capgate import Actor, ApprovalRequired, ApprovalRule, Engine
from capgate.approvals import MemoryApprovals

CALLS = 10_000
APPROVALS = 1_000
APPROVER = Actor("u_lee")


async def at_once(callers: int) -> dict[str, Any]:
    """Spread the calls over concurrent callers; latency is wall time, cost is CPU time."""
    engine, handle, _ = governed_engine(floor.search_and_wait)
    waited: list[float] = []

    async def caller() -> None:
        for _ in range(CALLS // callers):
            start = time.perf_counter()
            await engine.invoke(handle, floor.CALL, actor=ACTOR)
            waited.append(1e6 * (time.perf_counter() - start))

    start = time.process_time()
    async with anyio.create_task_group() as group:
        for _ in range(callers):
            group.start_soon(caller)
    used = time.process_time() - start
    cuts = statistics.quantiles(waited, n=1000)
    return {
        "callers": callers,
        "cpu_us": 1e6 * used / len(waited),
        "p50_us": cuts[499],
        "p99_us": cuts[989],
        "p999_us": cuts[998],
        "max_us": max(waited),
    }


def gated() -> tuple[Engine, Any]:
    """An engine with one capability that always asks."""
    engine = Engine("bench", approvals=MemoryApprovals())
    register = engine.capability(
        "orders.search", approval=ApprovalRule(reason="Ask first."), **READ
    )
    return engine, register(floor.search)


async def ask(engine: Engine, handle: Any) -> str:
    """Make one request that waits; its approval's id."""
    outcome = await engine.attempt(handle, floor.CALL, actor=ACTOR)
    assert isinstance(outcome, ApprovalRequired)
    return outcome.approval.id


async def pending_bytes() -> float:
    """Memory that one waiting approval holds, in bytes."""
    engine, handle = gated()
    await ask(engine, handle)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(APPROVALS):
        await ask(engine, handle)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / APPROVALS


async def approvals_per_second() -> dict[str, float]:
    """Approvals asked for, decided and resumed in a second of CPU time, in memory."""
    engine, handle = gated()
    start = time.process_time()
    waiting = [await ask(engine, handle) for _ in range(APPROVALS)]
    asked = time.process_time()
    for approval_id in waiting:
        await engine.approvals.approve(approval_id, by=APPROVER)
    decided = time.process_time()
    for approval_id in waiting:
        await engine.resume(approval_id)
    resumed = time.process_time()
    return {
        "asked": APPROVALS / (asked - start),
        "decided": APPROVALS / (decided - asked),
        "resumed": APPROVALS / (resumed - decided),
        "whole": APPROVALS / (resumed - start),
    }


async def everything() -> dict[str, Any]:
    """All figures of this file, as plain data."""
    return {
        "concurrency": [await at_once(callers) for callers in (1, 10, 100, 1000)],
        "bytes_per_pending_approval": await pending_bytes(),
        "approvals_per_second": {"memory": await approvals_per_second()},
    }
