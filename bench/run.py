"""`python -m bench.run`: one run, one table, one JSON file; fails when a bound is broken."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from bench import cases, floor, load, startup, stores
from bench.measure import Result, compare, interleave

RESULTS = Path(__file__).parent / "results"
FLOORS = {"floor": floor.plain, "waiting": floor.waiting}
ROW = "{:<4}{:<38}{:>10}{:>10}{:>9}{:>10}{:>7}{:>7}  {}"
HEAD = ("", "work", "best us", "median us", "x floor", "x median", "must", "aim", "")


async def against_the_floor(listed: list[cases.Case], rounds: int, calls: int) -> list[Result]:
    """Run cases and their floors in turns, in the running event loop."""
    turns = {name: (FLOORS[name], calls) for name in sorted({case.floor for case in listed})}
    turns |= {case.work: (case.run, max(1, round(calls * case.share))) for case in listed}
    spent = await interleave(turns, rounds)
    return [
        compare(case.key, case.work, spent[case.work], spent[case.floor], case.bound)
        for case in listed
    ]


def table(results: list[Result]) -> str:
    """The bounds, one row each."""
    lines = [ROW.format(*HEAD)]
    for row in results:
        figures = (f"{row.best:.1f}", f"{row.median:.1f}", f"{row.ratio:.2f}")
        asked = (row.bound.must or "", row.bound.aim or "")
        middle = f"{row.ratio_median:.2f}"
        lines.append(ROW.format(row.key, row.work, *figures, middle, *asked, row.verdict))
    return "\n".join(lines)


def carried(figures: dict[str, Any]) -> str:
    """The figures under load, in words."""
    lines = [
        "{callers:>5} concurrent: {cpu_us:6.1f} us CPU a call; wall p50 {p50_us:.0f}, "
        "p99 {p99_us:.0f}, p99.9 {p999_us:.0f}, max {max_us:.0f} us".format(**row)
        for row in figures["concurrency"]
    ]
    lines.append(
        f"memory for a pending approval: {figures['bytes_per_pending_approval']:.0f} bytes"
    )
    for store, rate in figures["approvals_per_second"].items():
        lines.append(
            "approvals a second, {}: {asked:.0f} asked, {decided:.0f} decided, "
            "{resumed:.0f} resumed, {whole:.0f} whole".format(store, **rate)
        )
    return "\n".join(lines)


def save(results: list[Result], figures: dict[str, Any], options: argparse.Namespace) -> Path:
    """Write everything to a file of its own."""
    now = datetime.now(UTC)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y%m%d-%H%M%S}.json"
    document = {
        "at": now.isoformat(),
        "python": platform.python_version(),
        "machine": platform.platform(),
        "rounds": options.rounds,
        "calls": options.calls,
        "bounds": [row.as_json() for row in results],
        "load": figures,
    }
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return path


def main() -> int:
    """Measure, print, save; the number of broken bounds decides the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="turns of each workload")
    parser.add_argument("--calls", type=int, default=1000, help="calls in a turn")
    parser.add_argument("--approvals", type=int, default=50, help="stored approvals in a turn")
    options = parser.parse_args()
    size = (options.rounds, options.calls)

    on_asyncio = anyio.run(against_the_floor, cases.on_asyncio(), *size, backend="asyncio")
    on_trio = anyio.run(against_the_floor, cases.on_trio(), *size, backend="trio")
    once = [startup.registration(options.rounds), *startup.importing(options.rounds)]
    results = sorted([*on_asyncio, *on_trio, *once], key=lambda row: row.key)
    print(table(results), end="\n\n")

    figures = anyio.run(load.everything)
    print(carried(figures), end="\n\n")
    figures["stores"] = stores.everything((options.approvals, 10 * options.calls))
    print(stores.table(figures["stores"]), end="\n\n")
    floors = f"{on_asyncio[0].floor:.1f} us on asyncio, {on_trio[0].floor:.1f} us on trio"
    print(f"the floor: {floors}; times are CPU unless they say wall; stores are wall time")
    print(f"written to {save(results, figures, options)}")
    return 1 if any(row.verdict == "FAILS" for row in results) else 0


if __name__ == "__main__":
    sys.exit(main())
