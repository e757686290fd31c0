"""`python -m bench.stores`: what a store costs beside the bare driver doing the same statements.

The floor writes the same rows with the driver alone, in one thread. The store adds the records and
their digests, the thread in between and the audit's chain. Times are wall time.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from bench import bare
from bench.postgres import find_binaries, running
from bench.samples import DECISION, NOW, event, started
from capgate.approvals import ApprovalRecord
from capgate.stores import Store, migrate
from capgate.testing.sample_approvals import sample

ROW = "{:<10}{:<40}{:>12}{:>12}{:>9}"
TURNS = 6
CALLERS = 100
WORK = {
    "approvals": "approvals, 100 callers",
    "events": "audit events, 100 callers",
}
PENDING = 100_000


async def approval(store: Store, record: ApprovalRecord) -> None:
    """Create, decide and spend one approval, through the store."""
    execution_id = f"exe_{record.id}"
    await store.approvals.create(record)
    await store.approvals.decide(record.id, DECISION, NOW)
    await store.approvals.consume(record.id, execution_id, NOW, started=started(execution_id))


async def timed(count: int, one: Callable[[int], Awaitable[None]]) -> list[float]:
    """Wall milliseconds of each."""
    spent: list[float] = []
    for number in range(count):
        start = time.perf_counter()
        await one(number)
        spent.append(1e3 * (time.perf_counter() - start))
    return spent


async def one_by_one(store: Store, db: bare.Driver, count: int) -> dict[str, float]:
    """Approvals of one caller, one after another: the store's and the floor's, in turns."""
    records = [sample(f"apr_{number}") for number in range(TURNS * count)]
    ours: list[float] = []
    theirs: list[float] = []
    for turn in range(TURNS):
        first = turn * count

        async def through_store(number: int, first: int = first) -> None:
            await approval(store, records[first + number])

        async def through_driver(number: int, first: int = first) -> None:
            bare.approval(db, first + number)

        ours += await timed(count, through_store)
        theirs += await timed(count, through_driver)
    return {
        "p50_ms": statistics.median(ours),
        "p99_ms": statistics.quantiles(ours, n=100)[98],
        "floor_p50_ms": statistics.median(theirs),
        "floor_p99_ms": statistics.quantiles(theirs, n=100)[98],
    }


async def approvals(store: Store, db: bare.Driver, count: int) -> dict[str, float]:
    """Approvals of a hundred callers at once, beside the driver writing them one by one."""
    count = max(count * TURNS, CALLERS)

    async def write(first: int) -> None:
        for number in range(first, count, CALLERS):
            await approval(store, sample(f"apr_many_{number}"))

    return await beside(write, count, lambda: bare.approvals(db, range(count, 2 * count)))


async def events(store: Store, db: bare.Driver, count: int) -> dict[str, float]:
    """Audit events of a hundred callers at once, beside the driver writing them in groups."""

    async def write(first: int) -> None:
        for number in range(first, count, CALLERS):
            await store.audit(event(number))

    return await beside(write, count, lambda: bare.events(db, count))


async def beside(
    write: Callable[[int], Awaitable[None]], count: int, floor: Callable[[], None]
) -> dict[str, float]:
    """Have all callers write, then the floor; what each does in a second."""
    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        for first in range(CALLERS):
            group.start_soon(write, first)
    ours = count / (time.perf_counter() - start)
    start = time.perf_counter()
    floor()
    theirs = count / (time.perf_counter() - start)
    return {"store_per_second": ours, "floor_per_second": theirs, "ratio": theirs / ours}


async def measure(url: str, db: bare.Driver, sizes: tuple[int, int]) -> dict[str, Any]:
    """Everything about one database."""
    async with Store(url) as store:
        return {
            "one": await one_by_one(store, db, sizes[0]),
            "approvals": await approvals(store, db, sizes[0]),
            "events": await events(store, db, sizes[1]),
        }


async def pending_bytes(url: str, count: int = PENDING) -> float:
    """Memory that one approval waiting in a database holds in the process, in bytes."""
    async with Store(url) as store:
        await store.approvals.create(sample("apr_first"))
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        async with anyio.create_task_group() as group:
            for part in range(4):
                group.start_soon(_ask_for, store, range(part, count, 4))
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return (after - before) / count


async def _ask_for(store: Store, numbers: range) -> None:
    for number in numbers:
        await store.approvals.create(sample(f"apr_{number}"))


@contextmanager
def postgres() -> Iterator[str | None]:
    """A server of our own with an empty database; None where PostgreSQL is not installed."""
    binaries = find_binaries()
    if binaries is None:
        yield None
        return
    with running(binaries, fsync=True) as url:
        yield url


def on_sqlite(folder: Path, sizes: tuple[int, int]) -> dict[str, Any]:
    """The figures on a file."""
    ours, theirs = folder / "store.db", folder / "bare.db"
    migrate(f"sqlite:///{theirs}")
    db = bare.BareSqlite(theirs)
    try:
        return anyio.run(measure, f"sqlite:///{ours}", db, sizes)
    finally:
        db.close()


def on_postgres(url: str, sizes: tuple[int, int]) -> dict[str, Any]:
    """The figures on a server, the store's tables in one schema and the floor's in another."""
    schemas = [f"{url}?options=-csearch_path%3D{name}" for name in ("ours", "theirs")]
    db = bare.BarePostgres(schemas[1])
    try:
        for name in ("ours", "theirs"):
            db.execute(f"CREATE SCHEMA {name}")
        migrate(schemas[1])
        return anyio.run(measure, schemas[0], db, sizes)
    finally:
        db.close()


def everything(sizes: tuple[int, int], folder: str | None = None) -> dict[str, Any]:
    """All figures, by database."""
    with tempfile.TemporaryDirectory(dir=folder) as made, postgres() as url:
        found = {"sqlite": on_sqlite(Path(made), sizes)}
        return found if url is None else found | {"postgres": on_postgres(url, sizes)}


def table(found: dict[str, Any]) -> str:
    """The figures, three rows for each database."""
    lines = [ROW.format("", "", "store", "driver", "x driver")]
    for name, figures in found.items():
        for key, work in WORK.items():
            row = figures[key]
            rates = (f"{row['store_per_second']:.0f}/s", f"{row['floor_per_second']:.0f}/s")
            lines.append(ROW.format(name, work, *rates, f"{row['ratio']:.2f}"))
        for key in ("p50_ms", "p99_ms"):
            ours, theirs = figures["one"][key], figures["one"][f"floor_{key}"]
            times = (f"{ours:.2f} ms", f"{theirs:.2f} ms", f"{ours / theirs:.2f}")
            lines.append(ROW.format(name, f"one approval, one caller, {key[:3]}", *times))
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.stores", description=__doc__)
    parser.add_argument("--approvals", type=int, default=100, help="approvals in a turn")
    parser.add_argument("--events", type=int, default=20_000, help="audit events in all")
    parser.add_argument("--folder", help="where files are made; a temporary folder if not")
    parser.add_argument("--pending", action="store_true", help="memory of 100,000 that wait, only")
    options = parser.parse_args()
    if options.pending:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            held = anyio.run(pending_bytes, f"sqlite:///{Path(folder) / 'store.db'}")
        print(f"{PENDING} approvals waiting: {held:.1f} bytes each in the process")
        return
    print(table(everything((options.approvals, options.events), options.folder)))


if __name__ == "__main__":
    main()
