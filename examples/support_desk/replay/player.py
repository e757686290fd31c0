"""Plays recorded lines through the real engine, one after the other, and judges each at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Final, TypeAlias

import anyio

from capgate import Actor, CancelToken, CapabilityError
from examples.support_desk.replay.entry import Entry
from examples.support_desk.replay.faults import FAULTS
from examples.support_desk.replay.rig import Rig
from examples.support_desk.replay.seen import (
    Seen,
    judge,
    seen_error,
    seen_outcome,
    seen_record,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One line, what came of it, and what was wrong about that."""

    number: int
    entry: Entry
    capability: str | None
    at: datetime
    seen: tuple[Seen, ...]
    ended: float
    problems: tuple[str, ...]


class Player:
    """Plays lines against one rig and remembers the approvals they open, by label."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self._approvals: dict[str, str] = {}
        self._capabilities: dict[str, str] = {}

    async def play_all(self, entries: Iterable[Entry], on_played: OnPlayed) -> list[Played]:
        """Play every line; `on_played` hears of each as it is done."""
        played: list[Played] = []
        for number, entry in enumerate(entries, start=1):
            played.append(await self.play(number, entry))
            await on_played(played[-1])
        return played

    async def play(self, number: int, entry: Entry) -> Played:
        """Play one line under its faults, then undo them."""
        at, token = self.rig.clock.now(), CancelToken()
        for fault in entry.faults:
            FAULTS[fault](self.rig, token)
        try:
            seen = await _OPS[entry.op](self, entry, token)
        finally:
            self.rig.calm()
        ended = perf_counter()
        self._remember(entry, seen)
        return Played(
            number=number,
            entry=entry,
            capability=entry.capability or self._capabilities.get(entry.approval or ""),
            at=at,
            seen=seen,
            ended=ended,
            problems=judge(entry.expect, seen) + self._same_approval(entry, seen),
        )

    def approval_id(self, label: str | None) -> str:
        """Return the id behind a label; an unknown label stands for itself."""
        return self._approvals.get(label or "", label or "")

    def actor(self, entry: Entry) -> Actor | None:
        """Return the actor that a line names."""
        return None if entry.actor is None else self.rig.directory.actor(entry.actor)

    def _remember(self, entry: Entry, seen: tuple[Seen, ...]) -> None:
        if entry.label is not None and seen[0].approval_id is not None:
            self._approvals[entry.label] = seen[0].approval_id
            self._capabilities[entry.label] = entry.capability or ""

    def _same_approval(self, entry: Entry, seen: tuple[Seen, ...]) -> tuple[str, ...]:
        label = entry.expect.same_as
        if label is None or seen[0].approval_id == self._approvals.get(label):
            return ()
        return (f"expected the approval that {label!r} opened",)


OnPlayed: TypeAlias = Callable[[Played], Awaitable[None]]
Play: TypeAlias = Callable[[Player, Entry, CancelToken], Awaitable[tuple[Seen, ...]]]


async def _call(player: Player, entry: Entry, token: CancelToken) -> tuple[Seen, ...]:
    outcome = await player.rig.engine.attempt(
        entry.capability or "",
        entry.input,
        actor=player.actor(entry),
        credentials=entry.token,
        surface=entry.surface or "direct",
        cancel=token,
        timeout=entry.timeout,
        idempotency_key=None if entry.key is None else f"{entry.key}-{player.rig.run}",
    )
    return (seen_outcome(outcome),)


async def _invoke(player: Player, entry: Entry, token: CancelToken) -> tuple[Seen, ...]:
    try:
        await player.rig.engine.invoke(
            entry.capability or "",
            entry.input,
            actor=player.actor(entry),
            surface=entry.surface or "direct",
            cancel=token,
        )
    except CapabilityError as error:
        return (seen_error(error),)
    return (Seen(status="completed"),)


async def _resume(player: Player, entry: Entry, token: CancelToken) -> tuple[Seen, ...]:
    outcome = await player.rig.engine.attempt_resume(
        player.approval_id(entry.approval),
        actor=player.actor(entry),
        expected_surface=entry.surface,
        cancel=token,
    )
    return (seen_outcome(outcome),)


async def _race(player: Player, entry: Entry, token: CancelToken) -> tuple[Seen, ...]:
    seen: list[Seen] = []

    async def run() -> None:
        seen.extend(await _resume(player, entry, token))

    async with anyio.create_task_group() as tasks:
        for _ in range(entry.times):
            tasks.start_soon(run)
    return tuple(seen)


async def _decide(player: Player, entry: Entry, _: CancelToken) -> tuple[Seen, ...]:
    approvals = player.rig.engine.approvals
    id_, by = player.approval_id(entry.approval), player.rig.directory.actor(entry.actor or "")
    try:
        if entry.op == "approve":
            record = await approvals.approve(id_, by=by, comment=entry.comment)
        elif entry.op == "reject":
            record = await approvals.reject(id_, by=by, comment=entry.comment)
        else:
            record = await approvals.withdraw(id_, by=by)
    except CapabilityError as error:
        return (seen_error(error),)
    return (seen_record(record),)


async def _discover(player: Player, entry: Entry, _: CancelToken) -> tuple[Seen, ...]:
    surface = entry.surface or "direct"
    found = await player.rig.engine.discover(surface, actor=player.actor(entry))
    return (Seen(status="completed", output=[each.id for each in found]),)


async def _advance(player: Player, entry: Entry, _: CancelToken) -> tuple[Seen, ...]:
    player.rig.clock.advance(entry.by or "1s")
    return (Seen(status="advanced"),)


_OPS: Final[dict[str, Play]] = {
    "call": _call,
    "invoke": _invoke,
    "resume": _resume,
    "race": _race,
    "approve": _decide,
    "reject": _decide,
    "withdraw": _decide,
    "discover": _discover,
    "advance": _advance,
}
