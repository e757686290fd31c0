"""One discovery walk: every capability is judged, in one go where nothing has to be awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import anyio.lowlevel

from capgate.policies import LATER, PolicyBatch, PolicyRequest, Ruling, Verdict, discard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from capgate.call import Call
    from capgate.capability import CapabilityView
    from capgate.engine.discover import CapabilityDescriptor
    from capgate.pipeline import Runtime
    from capgate.policies import Open, Question

# So many capabilities share a reading of the clock.
_STRIDE: Final = 64


class Candidate(NamedTuple):
    """One capability with both of its descriptors and its policies, made at registration."""

    view: CapabilityView
    batch: PolicyBatch
    plain: CapabilityDescriptor
    gated: CapabilityDescriptor


class Catalogue(NamedTuple):
    """What one surface exposes, in order of registration, and what a walk asks about it."""

    candidates: tuple[Candidate, ...]
    questions: tuple[Question, ...]
    plain: tuple[CapabilityDescriptor, ...]
    judged: bool

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> Catalogue:
        """Prepare to walk over `candidates`."""
        return cls(
            tuple(candidates),
            tuple((each.view, each.batch.prompt) for each in candidates),
            tuple(each.plain for each in candidates),
            any(each.batch for each in candidates),
        )


class Walk:
    """One walk of one caller.

    `broken` names each policy that broke, with the capability and what it raised. `surprised`
    tells that a plain function answered with something to await.
    """

    judged: bool
    surprised: bool

    def __init__(self, call: Call, catalogue: Catalogue, runtime: Runtime) -> None:
        """Prepare to walk over `catalogue` for the caller of `call`."""
        self._call = call
        self._catalogue = catalogue
        self._runtime = runtime
        self._left: list[int] = []
        # What differs from the plain descriptors, by place; None for what may not be seen.
        self._changed: dict[int, CapabilityDescriptor | None] = {}
        self.judged = catalogue.judged
        self.surprised = False
        self.broken: list[tuple[str, str, BaseException]] = []

    def go(self, seconds: float) -> bool:
        """Ask every policy that can answer at once; returns whether the walk is within its time."""
        call, questions = self._call, self._catalogue.questions
        now = call.watch.now
        end = call.started_at + seconds
        began = now()
        for first in range(0, len(questions) if self.judged else 0, _STRIDE):
            if began > end:
                return False
            stride = questions[first : first + _STRIDE]
            opened = PolicyRequest.survey(call, self._runtime.clock, stride)
            took = now() - began
            began += took
            if took > self._runtime.policy_timeout:
                self._again(range(first, first + len(stride)), opened)
            elif opened:
                self._settle(first, opened)
        return now() <= end

    def unfinished(self) -> bool:
        """Tell whether there are policies that have to be awaited."""
        return bool(self._left)

    async def rest(self) -> None:
        """Ask the policies that have to be awaited, about several capabilities at a time.

        Nobody is asked before it is its turn: a policy's time does not run while it waits.
        """
        line = iter(self._left)
        async with anyio.create_task_group() as group:
            for _ in range(min(len(self._left), self._runtime.limits.policy_concurrency)):
                group.start_soon(self._work, line)

    async def _work(self, line: Iterator[int]) -> None:
        for index in line:
            await anyio.lowlevel.checkpoint()
            candidate = self._catalogue.candidates[index]
            ruling = candidate.batch.rule(self._call, candidate.view)
            self._take(index, ruling if isinstance(ruling, Ruling) else await ruling)

    def _settle(self, first: int, opened: Sequence[Open]) -> None:
        """Take up the capabilities that were not simply allowed."""
        for place, request, done, answer in opened:
            index = first + place
            batch = self._catalogue.candidates[index].batch
            if answer is LATER:
                self._postpone(index)
                continue
            ruling = batch.go_on(request, done, answer, self._call.watch.now)
            if ruling is None:
                self.surprised = True
                self._postpone(index)
            else:
                self._take(index, ruling)

    def _again(self, indices: Iterable[int], opened: Sequence[Open]) -> None:
        """Ask once more, each by the clock: together they took longer than one of them may."""
        for each in opened:
            discard(each.answer)
        for index in indices:
            if self._catalogue.candidates[index].batch:
                self._postpone(index)

    def _postpone(self, index: int) -> None:
        self._changed[index] = None
        self._left.append(index)

    def _take(self, index: int, ruling: Ruling) -> None:
        candidate = self._catalogue.candidates[index]
        self.broken += [(candidate.view.id, name, raised) for name, raised in ruling.broken]
        seen = {Verdict.ALLOW: candidate.plain, Verdict.REQUIRE_APPROVAL: candidate.gated}
        self._changed[index] = seen.get(ruling.verdict)

    def found(self) -> list[CapabilityDescriptor]:
        """Return what may be seen, once the walk is over."""
        if not self._changed:
            return list(self._catalogue.plain)
        found: list[CapabilityDescriptor | None] = [*self._catalogue.plain]
        for index, descriptor in self._changed.items():
            found[index] = descriptor
        return [each for each in found if each is not None]
