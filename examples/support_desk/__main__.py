"""Replays the recorded calls of the support desk: `python -m examples.support_desk`."""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, TextIO

import anyio
import structlog
from rich.console import Console

from capgate.stores import Store
from examples.support_desk.replay.entry import CALLS, load_entries
from examples.support_desk.replay.rig import build_rig
from examples.support_desk.screen.earlier import earlier_approvals
from examples.support_desk.screen.show import play, report

DATABASE: Final = Path(__file__).parents[2] / ".demo" / "support-desk.db"


def main() -> int:
    """Play, show, and return the exit status: 0 when every line ended as recorded."""
    options = _options()
    console = Console(width=None if sys.stdout.isatty() else 100, file=_forgiving_stdout())
    options.database.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="support-desk-") as folder:
        good = anyio.run(partial(_replay, console, options, Path(folder)), backend=options.backend)
    return 0 if good else 1


def _forgiving_stdout() -> TextIO:
    """Return stdout such that a terminal without some character shows "?" instead of breaking."""
    stdout: TextIO = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(errors="replace")
    return sys.stdout


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.support_desk", description=__doc__)
    parser.add_argument("--calls", type=Path, default=CALLS, help="the recorded lines")
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    parser.add_argument(
        "--database", type=Path, default=DATABASE, help="kept between runs; made when missing"
    )
    parser.add_argument("--pace", type=float, default=0.01, help="seconds between two lines")
    return parser.parse_args()


async def _replay(console: Console, options: argparse.Namespace, folder: Path) -> bool:
    entries = load_entries(options.calls)
    url, trail = f"sqlite:///{options.database}", folder / "audit.jsonl"
    earlier = await earlier_approvals(url)
    pace = options.pace if console.is_terminal else 0.0
    with (folder / "log.jsonl").open("w", encoding="utf-8") as log:
        # The library logs what fails inside; here that is on purpose and belongs in a file.
        structlog.configure(logger_factory=structlog.WriteLoggerFactory(log))
        rig = build_rig(url)
        began = perf_counter()
        async with rig.engine:
            played = await play(console, rig, entries, pace)
        seconds = perf_counter() - began
        async with Store(url) as store:
            await store.audit.export(trail)
        return report(console, rig, played, earlier=earlier, trail=trail, seconds=seconds)


if __name__ == "__main__":
    sys.exit(main())
