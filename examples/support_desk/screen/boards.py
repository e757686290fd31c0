"""Two tables over a whole replay: outcomes by capability and stage, and the codes reached."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.table import Table
from rich.text import Text

from capgate import ErrorCode, FailureStage
from capgate.errors import TABLE
from examples.support_desk.replay.entry import EXECUTIONS
from examples.support_desk.replay.player import Played
from examples.support_desk.replay.seen import Seen

ADAPTERS_ONLY: Final = frozenset({ErrorCode.ADAPTER_ERROR})
WIDE: Final = 94
DONE: Final = "completed"
WAITS: Final = "approval-required"
_STOPPED: Final = frozenset({FailureStage.TIMEOUT, FailureStage.CANCELLATION})
_STOP: Final = "stopped"

# column, its heading where there is room, its heading where there is not, its colour
_COLUMNS: Final = (
    (DONE, "done", "done", "green"),
    (WAITS, "waits", "wait", "yellow"),
    (FailureStage.DISCOVERY, "disc", "disc", "red"),
    (FailureStage.INPUT_VALIDATION, "input", "inpt", "red"),
    (FailureStage.AUTHENTICATION, "authn", "autn", "red"),
    (FailureStage.AUTHORIZATION, "authz", "autz", "red"),
    (FailureStage.POLICY, "policy", "poly", "red"),
    (FailureStage.APPROVAL, "appr", "appr", "red"),
    (FailureStage.EXECUTION, "exec", "exec", "red"),
    (FailureStage.OUTPUT_VALIDATION, "output", "outp", "red"),
    (_STOP, "stop", "stop", "magenta"),
)


def outcome_board(played: Iterable[Played], *, width: int) -> Table:
    """Return one row per capability: how often its calls ended where."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for capability, seen in _executions(played):
        counts[capability][_column(seen)] += 1
    wide = width >= WIDE
    board = Table(
        title="Where calls ended: done, waiting, refused at a stage, or stopped",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0) if wide else 0,
    )
    board.add_column("capability", style="bold", no_wrap=True)
    for _, long, short, colour in _COLUMNS:
        board.add_column(long if wide else short, justify="right", style=colour, min_width=5)
    for capability in sorted(counts):
        board.add_row(capability, *_cells(counts[capability]))
    board.add_row("", *["─" * 4] * len(_COLUMNS), style="dim")
    board.add_row("together", *_cells(sum(counts.values(), Counter[str]())))
    return board


def code_board(played: Iterable[Played], *, columns: int) -> Table:
    """Return every error code, how often it was reached, and whether a client may see it."""
    reached = Counter(seen.code for each in played for seen in each.seen if seen.code)
    title = f"Error codes: {len(reached)} of {len(ErrorCode)} reached"
    board = Table.grid(padding=(0, 2))
    board.title, board.title_justify = title, "left"
    cells = [_code_cell(code, reached[code]) for code in ErrorCode]
    rows = -(-len(cells) // columns)
    for row in range(rows):
        board.add_row(*cells[row::rows])
    return board


def unreached(played: Iterable[Played]) -> set[ErrorCode]:
    """Return the codes that no line led to, those of adapters aside."""
    reached = {seen.code for each in played for seen in each.seen}
    return set(ErrorCode) - reached - ADAPTERS_ONLY


def _code_cell(code: ErrorCode, count: int) -> Text:
    mark, style = ("●", "") if TABLE[code].exposed else ("○", "dim")
    if not count:
        mark, style = "-", "red" if code not in ADAPTERS_ONLY else "dim"
    return Text.assemble((f"{count or '':>2} ", "bold"), (f"{mark} {code.value}", style))


def _executions(played: Iterable[Played]) -> Iterator[tuple[str, Seen]]:
    for each in played:
        if each.entry.op in EXECUTIONS and each.capability:
            yield from ((each.capability, seen) for seen in each.seen)


def _column(seen: Seen) -> str:
    if seen.status in {DONE, WAITS}:
        return seen.status
    return _STOP if seen.stage in _STOPPED else str(seen.stage)


def _cells(counts: Counter[str]) -> Sequence[str]:
    return [str(counts[column] or "") for column, *_ in _COLUMNS]
