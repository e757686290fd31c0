"""`python -m bench.stores`: what a store costs beside the bare driver doing the same statements.

The floor writes the same rows with `sqlite3` alone, in one thread, one transaction a step. The
store adds the records, the thread in between and the audit's chain.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from capgate.approvals import ApprovalRecord
from capgate.audit import AuditEvent
from capgate.stores import Store, migrate
from capgate.testing.sample_approvals import sample, yes

NOW = datetime(2026, 1, 1, 12, 1, tzinfo=UTC)
ROW = "{:<44}{:>12}{:>12}{:>9}"
DECISION = yes("mia")
TURNS = 4


def bare(file: Path) -> sqlite3.Connection:
    """The driver, with the settings of the store."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


ROW_OF = """
    SELECT id, capability_id, actor_id, expires_at, quorum, status, consumed_by, body
    FROM capgate_approvals WHERE id = ?"""
DECISIONS_OF = "SELECT body FROM capgate_decisions WHERE approval_id = ? ORDER BY place"


def bare_approval(db: sqlite3.Connection, number: int, body: str, decision: str) -> None:
    """Create, decide and consume one approval: the store's own statements."""
    id_, execution_id = f"bare_{number}", f"exe_{number}"
    db.execute("BEGIN IMMEDIATE")
    db.execute(
        "INSERT INTO capgate_approvals (id, capability_id, actor_id, status, expires_at, quorum,"
        " consumed_by, body) VALUES (?, 'orders.refund', 'dana', 'pending', ?, 1, NULL, ?)",
        (id_, 2**60, body),
    )
    db.execute("COMMIT")
    db.execute("BEGIN IMMEDIATE")
    db.execute(
        "INSERT INTO capgate_decisions (approval_id, place, approver, approved, body)"
        " SELECT id, (SELECT count(*) FROM capgate_decisions WHERE approval_id = id), 'mia', 1, ?"
        " FROM capgate_approvals WHERE id = ? AND status = 'pending' AND expires_at > 0"
        " ON CONFLICT DO NOTHING",
        (decision, id_),
    )
    db.execute(
        "UPDATE capgate_approvals SET status = 'approved' WHERE id = ? AND quorum <= ("
        "SELECT count(*) FROM capgate_decisions WHERE approval_id = id AND approved = 1)",
        (id_,),
    )
    db.execute(ROW_OF, (id_,)).fetchall()
    db.execute(DECISIONS_OF, (id_,)).fetchall()
    db.execute("COMMIT")
    db.execute("BEGIN IMMEDIATE")
    db.execute(
        "UPDATE capgate_approvals SET status = 'consumed', consumed_by = ?"
        " WHERE id = ? AND status = 'approved' AND expires_at > 0",
        (execution_id, id_),
    )
    db.execute(
        "INSERT INTO capgate_executions (execution_id, approval_id, since) VALUES (?, ?, 0)"
        " ON CONFLICT DO NOTHING",
        (execution_id, id_),
    )
    db.execute(ROW_OF, (id_,)).fetchall()
    db.execute(DECISIONS_OF, (id_,)).fetchall()
    db.execute("COMMIT")


async def approval(store: Store, records: list[ApprovalRecord], number: int) -> None:
    """Create, decide and consume one approval, through the store."""
    record = records[number]
    await store.approvals.create(record)
    await store.approvals.decide(record.id, DECISION, NOW)
    await store.approvals.consume(record.id, f"exe_{number}", NOW)


async def timed(count: int, one: Callable[[int], Awaitable[None]]) -> list[float]:
    """Wall milliseconds of each."""
    spent: list[float] = []
    for number in range(count):
        start = time.perf_counter()
        await one(number)
        spent.append(1e3 * (time.perf_counter() - start))
    return spent


async def approvals(store: Store, file: Path, count: int) -> dict[str, Any]:
    """Approvals, one after another: the store's and the floor's, in turns."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "bare.db"
        migrate(f"sqlite:///{other}")
        db = bare(other)
        records = [sample(f"apr_{number}") for number in range(TURNS * count)]
        body, decision = json.dumps(sample("x").to_dict()), json.dumps(DECISION.to_dict())

        async def floor(number: int) -> None:
            bare_approval(db, number, body, decision)

        ours: list[float] = []
        theirs: list[float] = []
        for turn in range(TURNS):
            at = partial(_shifted, turn * count)
            ours += await timed(count, at(partial(approval, store, records)))
            theirs += await timed(count, at(floor))
        db.close()
    return {
        "store_per_second": 1e3 / statistics.median(ours),
        "floor_per_second": 1e3 / statistics.median(theirs),
        "ratio": statistics.median(ours) / statistics.median(theirs),
        "p50_ms": statistics.median(ours),
        "p99_ms": statistics.quantiles(ours, n=100)[98],
        "floor_p50_ms": statistics.median(theirs),
        "floor_p99_ms": statistics.quantiles(theirs, n=100)[98],
    }


def _shifted(by: int, one: Callable[[int], Awaitable[None]]) -> Callable[[int], Awaitable[None]]:
    return lambda number: one(by + number)


def event(number: int) -> AuditEvent:
    """An event as a call makes it."""
    ids = {"execution_id": f"exe_{number}", "correlation_id": f"exe_{number}"}
    return AuditEvent(
        "capability.requested", NOW, surface="direct", capability_id="orders.refund", **ids
    )


async def events(store: Store, count: int) -> dict[str, Any]:
    """Audit events of many callers at once, beside the driver writing as many rows in groups."""

    async def write(first: int) -> None:
        for number in range(first, first + count // 100):
            await store.audit(event(number))

    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        for first in range(0, count, count // 100):
            group.start_soon(write, first)
    ours = count / (time.perf_counter() - start)
    return {"store_per_second": ours, "floor_per_second": bare_events(count)}


def bare_events(count: int) -> float:
    """Rows a second with the driver alone, a hundred in a transaction, dumped but not chained."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bare.db"
        migrate(f"sqlite:///{file}")
        db = bare(file)
        start = time.perf_counter()
        for first in range(0, count, 100):
            db.execute("BEGIN IMMEDIATE")
            for number in range(first, first + 100):
                text = json.dumps(event(number).to_dict())
                db.execute("INSERT INTO capgate_audit VALUES ('s', ?, '', ?)", (number, text))
            db.execute("COMMIT")
        spent = time.perf_counter() - start
        db.close()
    return count / spent


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything, on a file in the folder that was asked for."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        file = Path(folder) / "store.db"
        async with Store(f"sqlite:///{file}") as store:
            return {
                "approvals": await approvals(store, file, options.approvals),
                "events": await events(store, options.events),
            }


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(prog="python -m bench.stores", description=__doc__)
    parser.add_argument("--approvals", type=int, default=200, help="approvals in a turn")
    parser.add_argument("--events", type=int, default=20_000, help="audit events in all")
    parser.add_argument("--folder", help="where the database is made; a temporary folder if not")
    found = anyio.run(measure, parser.parse_args())
    one, many = found["approvals"], found["events"]
    print(ROW.format("sqlite", "store", "driver", "x driver"))
    rates = (f"{one['store_per_second']:.0f}/s", f"{one['floor_per_second']:.0f}/s")
    print(ROW.format("approvals: create, decide, consume", *rates, f"{one['ratio']:.2f}"))
    for name in ("p50", "p99"):
        pair = (f"{one[f'{name}_ms']:.2f} ms", f"{one[f'floor_{name}_ms']:.2f} ms")
        print(ROW.format(f"  one approval, {name}", *pair, ""))
    rates = (f"{many['store_per_second']:.0f}/s", f"{many['floor_per_second']:.0f}/s")
    ratio = many["floor_per_second"] / many["store_per_second"]
    print(ROW.format("audit events, 100 callers", *rates, f"{ratio:.2f}"))


if __name__ == "__main__":
    main()
