"""One story of the replay, drawn stage by stage: who asked, who decided, what ran, how long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table
from rich.text import Text

from capgate.audit import AuditEvent
from capgate.errors import JSON
from examples.support_desk.replay.entry import EXECUTIONS
from examples.support_desk.replay.player import Played
from examples.support_desk.replay.probe import Lap
from examples.support_desk.replay.rig import Rig
from examples.support_desk.screen.boards import DONE, WAITS

STORY: Final = "story"
BAR: Final = 24
_VERBS: Final[Mapping[str, str]] = {"call": "asks", "resume": "resumes", "approve": "approves"}
_BLOCKS: Final = "▏▎▍▌▋▊▉█"


@dataclass(frozen=True, slots=True)
class _Chapter:
    """One act of the story and the stages it went through."""

    played: Played
    laps: tuple[Lap, ...]
    decisions: tuple[Mapping[str, JSON], ...]


def timeline(played: Iterable[Played], rig: Rig, label: str = STORY) -> Table:
    """Return everything that happened around one approval."""
    chapters = [_chapter(each, rig) for each in played if _belongs(each, label)]
    longest = max((lap.seconds for each in chapters for lap in each.laps), default=1.0)
    drawing = Table.grid(padding=(0, 1))
    drawing.title, drawing.title_justify = _title(chapters), "left"
    for column in ("dim", "bold cyan", "", "", "dim"):
        drawing.add_column(style=column, no_wrap=True)
    for chapter in chapters:
        for row in _rows(chapter, longest):
            drawing.add_row(*row)
    return drawing


def _belongs(played: Played, label: str) -> bool:
    return label in {played.entry.label, played.entry.approval}


def _chapter(played: Played, rig: Rig) -> _Chapter:
    seen = played.seen[0]
    if played.entry.op not in EXECUTIONS or seen.status not in {DONE, WAITS}:
        return _Chapter(played, (), ())
    execution = seen.execution_id or ""
    stopped = "approval" if seen.status == WAITS else None
    laps = rig.times.laps(execution, stopped=stopped, ended=played.ended)
    return _Chapter(played, tuple(laps), _decisions(rig.events.events, execution))


def _decisions(events: Sequence[AuditEvent], execution: str) -> tuple[Mapping[str, JSON], ...]:
    found = (e.data.get("policy_decisions") for e in events if e.execution_id == execution)
    return tuple(decision for decisions in found for decision in decisions or ())


def _title(chapters: Sequence[_Chapter]) -> str:
    first = chapters[0].played.entry
    return f"One call, start to end: {first.capability} of {first.input['amount']} euro"


def _rows(chapter: _Chapter, longest: float) -> Iterator[tuple[str | Text, ...]]:
    entry, seen = chapter.played.entry, chapter.played.seen[0]
    clock = chapter.played.at.strftime("%H:%M")
    over = f" over {entry.surface}" if entry.op == "call" else ""
    verb = f"{_VERBS.get(entry.op, entry.op)}{over}"
    if not chapter.laps:
        mark, style = ("✓", "green") if seen.code is None else ("✗", "red")
        yield (
            clock,
            entry.actor or "",
            verb,
            Text(f"{mark} {seen.name}", style),
            _remark(entry.note),
        )
        return
    yield clock, entry.actor or "", verb, "", _remark(entry.note)
    for lap in chapter.laps:
        yield "", "", f"├ {lap.stage}", _bar(lap.seconds, longest), _facts(lap.stage, chapter)
    yield "", "", _ending(seen.status), "", ""


def _remark(note: str) -> Text:
    return Text(note, "italic dim")


def _ending(status: str) -> Text:
    if status == WAITS:
        return Text("└ suspended", "bold yellow")
    return Text("└ completed", "bold green")


def _bar(seconds: float, longest: float) -> Text:
    eighths = max(1, round(seconds / longest * BAR * 8))
    full, rest = divmod(eighths, 8)
    blocks = "█" * full + (_BLOCKS[rest - 1] if rest else "")
    return Text.assemble((f"{seconds * 1e6:6.0f} µs ", ""), (blocks, "cyan"))


def _facts(stage: str, chapter: _Chapter) -> str:
    if stage == "approval" and chapter.played.entry.op == "call":
        return "two rules want a person; nothing has run"
    phase = {"policy": "invocation", "execution": "execution"}.get(stage)
    asked = [d for d in chapter.decisions if phase and d["phase"] == phase]
    return " · ".join(f"{d['policy']}: {d['decision']}" for d in asked)
