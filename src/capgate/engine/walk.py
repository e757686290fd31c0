"""One discovery walk: every capability is judged, in one go where nothing has to be awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import anyio
import anyio.lowlevel

from capgate.policies import AWAITED, LATER, PolicyBatch, Ruling, Verdict, discard, survey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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

    def question(self) -> Question[CapabilityDescriptor]:
        """Return what the walk asks."""
        prompt = self.batch.prompt
        return self.view, AWAITED if prompt is None else prompt, self.plain


class Catalogue(NamedTuple):
    """What one surface exposes, in order of registration, and the questions about it."""

    candidates: tuple[Candidate, ...]
    questions: tuple[Question[CapabilityDescriptor], ...]
    judged: bool

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> Catalogue:
        """Prepare to walk over `candidates`."""
        questions = tuple(each.question() for each in candidates)
        return cls(tuple(candidates), questions, any(each.batch for each in candidates))


class Walk:
    """One walk of one caller.

    `found` has the descriptors of what may be seen, None for the rest. `broken` names each policy
    that broke, with the capability and what it raised. `surprised` tells that a plain function
    answered with something to await.
    """

    def __init__(self, call: Call, catalogue: Catalogue, runtime: Runtime) -> None:
        """Prepare to walk over `catalogue` for the caller of `call`."""
        self._call = call
        self._catalogue = catalogue
        self._runtime = runtime
        self._left: list[int] = []
        self.surprised = False
        self.found: list[CapabilityDescriptor | None] = []
        self.broken: list[tuple[str, str, BaseException]] = []

    def go(self, seconds: float) -> bool:
        """Ask every policy that can answer at once; returns whether the walk is within its time."""
        now = self._call.watch.now
        end = self._call.started_at + seconds
        for first in range(0, len(self._catalogue.questions), _STRIDE):
            began = now()
            if began > end:
                return False
            questions = self._catalogue.questions[first : first + _STRIDE]
            found, opened = survey(self._call, self._runtime.clock, questions)
            self.found += found
            if now() - began > self._runtime.policy_timeout:
                self._again(first, opened)
            elif opened:
                self._settle(first, opened)
        return now() <= end

    @property
    def judged(self) -> bool:
        """Whether any policy is asked at all."""
        return self._catalogue.judged

    def unfinished(self) -> bool:
        """Tell whether there are policies that have to be awaited."""
        return bool(self._left)

    async def rest(self) -> None:
        """Ask the policies that have to be awaited, about several capabilities at a time.

        Nobody is called before it is its turn: a policy's time does not run while it waits.
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
                self._left.append(index)
                continue
            ruling = batch.go_on(request, done, answer, self._call.watch.now)
            if ruling is None:
                self.surprised = True
                self._left.append(index)
            else:
                self._take(index, ruling)

    def _again(self, first: int, opened: Sequence[Open]) -> None:
        """Ask once more, each by the clock: together they took longer than one of them may."""
        for each in opened:
            discard(each.answer)
        for index in range(first, len(self.found)):
            if self._catalogue.candidates[index].batch:
                self.found[index] = None
                self._left.append(index)

    def _take(self, index: int, ruling: Ruling) -> None:
        candidate = self._catalogue.candidates[index]
        self.broken += [(candidate.view.id, name, raised) for name, raised in ruling.broken]
        if ruling.verdict is Verdict.ALLOW:
            self.found[index] = candidate.plain
        elif ruling.verdict is Verdict.REQUIRE_APPROVAL:
            self.found[index] = candidate.gated
