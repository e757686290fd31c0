"""One story of the replay, drawn stage by stage: who asked, who decided, what ran, how long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.text import Text

from capgate.audit import AuditEvent
from capgate.errors import JSON
from examples.support_desk.replay.entry import EXECUTIONS
from examples.support_desk.replay.player import Played
from examples.support_desk.replay.probe import Lap
from examples.support_desk.replay.rig import Rig
from examples.support_desk.screen.boards import DONE, WAITS

STORY: Final = "story"
BAR: Final = 18
INDENT: Final = " " * 7
_VERBS: Final[Mapping[str, str]] = {"call": "asks", "resume": "resumes", "approve": "approves"}
_BLOCKS: Final = "▏▎▍▌▋▊▉█"
# A resumed call was judged by these when it was made; they do not ask again.
_ONCE: Final = frozenset({"policy", "approval"})


@dataclass(frozen=True, slots=True)
class _Chapter:
    """One act of the story, the stages it went through and what the policies said."""

    played: Played
    laps: tuple[Lap, ...]
    decisions: tuple[Mapping[str, JSON], ...]


def timeline(played: Iterable[Played], rig: Rig, label: str = STORY) -> Text:
    """Return everything that happened around one approval, one line each."""
    chapters = [_chapter(each, rig) for each in played if _belongs(each, label)]
    if not chapters:
        return Text("no line belongs to the story")
    longest = max((lap.seconds for each in chapters for lap in each.laps), default=1.0)
    lines = [_title(chapters)]
    for chapter in chapters:
        lines.extend(_lines(chapter, longest))
    return Text("\n").join(lines)


def _belongs(played: Played, label: str) -> bool:
    return label in {played.entry.label, played.entry.approval}


def _chapter(played: Played, rig: Rig) -> _Chapter:
    entry, seen = played.entry, played.seen[0]
    if entry.op not in EXECUTIONS or seen.status not in {DONE, WAITS}:
        return _Chapter(played, (), ())
    execution = seen.execution_id or ""
    stopped = "approval" if seen.status == WAITS else None
    laps = rig.times.laps(execution, stopped=stopped, ended=played.ended)
    plan = rig.engine.describe(played.capability or "").plan
    ran = {step["stage"] for step in plan if step["runs"]} - (
        _ONCE if entry.op == "resume" else frozenset()
    )
    return _Chapter(
        played,
        tuple(lap for lap in laps if lap.stage in ran),
        _decisions(rig.events.events, execution),
    )


def _decisions(events: Sequence[AuditEvent], execution: str) -> tuple[Mapping[str, JSON], ...]:
    found = (e.data.get("policy_decisions") for e in events if e.execution_id == execution)
    return tuple(decision for decisions in found for decision in decisions or ())


def _title(chapters: Sequence[_Chapter]) -> Text:
    first = chapters[0].played.entry
    what = f"{first.capability}, {first.input['order_id']}, {first.input['amount']} euro"
    return Text.assemble(("One call from start to end: ", "italic"), (what, "italic bold"))


def _lines(chapter: _Chapter, longest: float) -> Iterator[Text]:
    entry, seen = chapter.played.entry, chapter.played.seen[0]
    over = f" over {entry.surface}" if entry.op == "call" else ""
    verdict = (f"✗ {seen.name}  ", "red") if seen.code else (f"✓ {seen.name}  ", "green")
    yield Text.assemble(
        (chapter.played.at.strftime("%H:%M  "), "dim"),
        (f"{entry.actor} ", "bold cyan"),
        f"{_VERBS.get(entry.op, entry.op)}{over}  ",
        "" if chapter.laps else verdict,
        (entry.note, "italic dim"),
    )
    for lap in chapter.laps:
        yield _lap_line(lap, longest, _facts(lap.stage, chapter))
    if chapter.laps:
        waits = seen.status == WAITS
        ending = ("└ suspended", "bold yellow") if waits else ("└ completed", "bold green")
        yield Text.assemble(INDENT, ending, ("" if waits else f", effect {seen.effect}", "green"))


def _lap_line(lap: Lap, longest: float, facts: str) -> Text:
    eighths = max(1, round(lap.seconds / longest * BAR * 8))
    full, rest = divmod(eighths, 8)
    blocks = "█" * full + (_BLOCKS[rest - 1] if rest else "")
    return Text.assemble(
        f"{INDENT}├ {lap.stage:<18}{lap.seconds * 1e6:>6.0f} µs ",
        (f"{blocks:<{BAR}} ", "cyan"),
        (facts, "dim"),
    )


def _facts(stage: str, chapter: _Chapter) -> str:
    if stage == "approval":
        return "one request for all of them; nothing has run"
    phase = {"policy": "invocation", "execution": "execution"}.get(stage)
    said = [d for d in chapter.decisions if phase and d["phase"] == phase]
    asking = [d["policy"] for d in said if d["decision"] == "require-approval"]
    return f"asked by {', '.join(asking)}" if asking else _allowed(said)


def _allowed(said: Sequence[Mapping[str, JSON]]) -> str:
    return f"allowed by {', '.join(d['policy'] for d in said)}" if said else ""
