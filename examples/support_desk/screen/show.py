"""The whole show: a progress bar while lines are played, then what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column, Table
from rich.text import Text

from capgate.approvals import ApprovalRecord
from examples.support_desk.replay.entry import Entry
from examples.support_desk.replay.player import Played, Player
from examples.support_desk.replay.rig import Rig
from examples.support_desk.screen.boards import code_board, outcome_board, unreached
from examples.support_desk.screen.earlier import earlier_board
from examples.support_desk.screen.timeline import timeline
from examples.support_desk.screen.trail import trail_verdict

SIDE_BY_SIDE: Final = 156
THREE_COLUMNS: Final = 98
MOST_PROBLEMS: Final = 20


async def play(console: Console, rig: Rig, entries: Sequence[Entry], pace: float) -> list[Played]:
    """Play every line behind a live bar; `pace` is a pause in seconds, for people to see it."""
    bar = Progress(
        TextColumn("[bold]{task.fields[label]}", justify="left"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TextColumn("[dim]{task.description}", table_column=Column(ratio=1, no_wrap=True)),
        console=console,
        expand=True,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=len(entries), label="replaying")

        async def on_played(each: Played) -> None:
            bar.update(task, advance=1, description=each.entry.note)
            await anyio.sleep(pace)

        return await Player(rig).play_all(entries, on_played)


def report(
    console: Console,
    rig: Rig,
    played: Sequence[Played],
    *,
    earlier: Sequence[ApprovalRecord],
    trail: Path,
    seconds: float,
) -> bool:
    """Print everything and return whether the replay was as expected."""
    good, verdict = trail_verdict(trail)
    problems = [(each, problem) for each in played for problem in each.problems]
    missing = unreached(played)
    console.print(_boards(console, played))
    console.print()
    console.print(timeline(played, rig), no_wrap=True, overflow="ellipsis")
    console.print()
    console.print(earlier_board(earlier), no_wrap=True, overflow="ellipsis")
    console.print()
    console.print(verdict)
    console.print(_summary(played, len(problems), seconds))
    for each, problem in problems[:MOST_PROBLEMS]:
        console.print(f"line {each.number}, {each.entry.note} {problem}", style="red")
    if missing:
        console.print(f"never reached: {', '.join(sorted(missing))}", style="red")
    return good and not problems and not missing


def _boards(console: Console, played: Sequence[Played]) -> RenderableType:
    if console.width >= SIDE_BY_SIDE:
        pair = Table.grid(padding=(0, 4))
        codes = Group(code_board(played, columns=2), _legend())
        pair.add_row(outcome_board(played, width=0), codes)
        return pair
    outcomes = outcome_board(played, width=console.width)
    columns = 3 if console.width >= THREE_COLUMNS else 2
    return Group(outcomes, Text(), code_board(played, columns=columns), _legend())


def _legend() -> Text:
    return Text("● clients may see it   ○ only INTERNAL_ERROR, unless declared", "dim")


def _summary(played: Sequence[Played], wrong: int, seconds: float) -> Text:
    calls = sum(len(each.seen) for each in played if each.entry.op != "advance")
    verdict = ("every one as recorded", "green") if not wrong else (f"{wrong} WRONG", "bold red")
    return Text.assemble(
        ("Replay ", "bold"), f"{calls} calls and decisions, ", verdict, f", in {seconds:.1f} s."
    )
