"""Asking every policy of one phase, and making one verdict of their answers.

All are asked, so that the record is complete, under one shared deadline. A policy that raises,
answers with something else or overruns the deadline counts as `error`; those after an overrun are
`not-evaluated`. Nothing here fails open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from capgate.call import Clock
from capgate.call import Overrun, Stray, bounded
from capgate.capability import Policy
from capgate.errors import JSON
from capgate.policies.decision import ALLOW, Decision, Verdict
from capgate.policies.policy import flatten
from capgate.policies.request import Phase, PolicyRequest

if TYPE_CHECKING:
    from capgate.call import Call

Record = Mapping[str, JSON]

_ORDER: Final = tuple(Verdict)


def _none_broken() -> Mapping[str, BaseException]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ruling:
    """The verdict of one batch.

    `decision` is the first decision that has the verdict, None for an error. `requirements` are
    all requests for approval. `broken` maps each broken policy to what it raised, for diagnosis.
    """

    verdict: Verdict
    decision: Decision | None
    records: tuple[Record, ...]
    requirements: tuple[Decision, ...] = ()
    broken: Mapping[str, BaseException] = field(default_factory=_none_broken)

    def first_broken(self) -> BaseException | None:
        """Return what the first broken policy raised."""
        return next(iter(self.broken.values()), None)


class PolicyBatch:
    """The policies of one capability in one phase, made once."""

    __slots__ = ("_all_allow", "_clock", "_functions", "_phase", "_seconds", "names")

    def __init__(
        self, policies: Sequence[Policy], phase: Phase, *, seconds: float, clock: Clock
    ) -> None:
        """Prepare `policies`, already flattened and filtered to `phase`."""
        self._functions = tuple((each.name, each.evaluate) for each in policies)
        self._phase: Phase = phase
        self._seconds = seconds
        self._clock = clock
        self.names = tuple(name for name, _ in self._functions)
        records = tuple(_record(name, Verdict.ALLOW, phase, None) for name in self.names)
        self._all_allow = Ruling(Verdict.ALLOW, ALLOW, records)

    def __bool__(self) -> bool:
        return bool(self._functions)

    def rule(self, call: Call) -> Ruling | Awaitable[Ruling]:
        """Ask every policy; awaitable only when one of them is."""
        now = call.watch.now
        deadline = now() + self._seconds
        shared = PolicyRequest[object](call, self._phase, self._clock)
        for index, (_, evaluate) in enumerate(self._functions):
            try:
                answer = evaluate(shared)
            except Exception as error:  # noqa: BLE001  a policy may raise anything: it counts as error
                return self._rule_on(call, deadline, index, error)
            if answer is not ALLOW or now() > deadline:
                return self._rule_on(call, deadline, index, answer)
        return self._all_allow

    def _rule_on(
        self, call: Call, deadline: float, index: int, answer: object
    ) -> Ruling | Awaitable[Ruling]:
        asking = _Asking(self._functions, deadline, call, (self._phase, self._clock))
        asking.skip(index)
        pending = asking.take(answer)
        if pending is None:
            pending = asking.advance()
        if pending is None:
            return asking.ruling()
        return asking.finish(pending)


class _Asking:
    """One batch under way, once an answer was not a plain allow."""

    def __init__(
        self,
        functions: Sequence[tuple[str, object]],
        deadline: float,
        call: Call,
        terms: tuple[Phase, Clock],
    ) -> None:
        self._functions = functions
        self._deadline = deadline
        self._call = call
        self._terms = terms
        self._answers: list[Decision | None] = []
        self._broken: dict[str, BaseException] = {}
        self._overrun = False

    def skip(self, count: int) -> None:
        self._answers = [ALLOW] * count

    def take(self, answer: object) -> Awaitable[object] | None:
        """Record one answer, or return it if it has to be awaited."""
        if self._overran():
            _discard(answer)
            self._break(Overrun("the batch of policies ran out of time"))
            self._overrun = True
        elif isinstance(answer, Decision):
            self._answers.append(answer)
        elif isinstance(answer, BaseException):
            self._break(answer)
        elif isinstance(answer, Awaitable):
            return answer
        else:
            self._break(TypeError(f"a policy answered {type(answer).__name__}, not a decision"))
        return None

    def advance(self) -> Awaitable[object] | None:
        """Ask on until an answer has to be awaited or all are in."""
        while len(self._answers) < len(self._functions) and not self._overrun:
            _, evaluate = self._functions[len(self._answers)]
            try:
                answer = evaluate(PolicyRequest[object](self._call, *self._terms))  # type: ignore[operator]
            except Exception as error:  # noqa: BLE001  a policy may raise anything: it counts as error
                answer = error
            pending = self.take(answer)
            if pending is not None:
                return pending
        return None

    async def finish(self, pending: Awaitable[object] | None) -> Ruling:
        while pending is not None:
            remaining = max(self._deadline - self._call.watch.now(), 0.0)
            try:
                answer = await bounded(pending, remaining)
            except (Overrun, Stray, Exception) as error:  # noqa: BLE001  counts as error
                answer = error
            pending = self.take(_not_awaitable(answer)) or self.advance()
        return self.ruling()

    def ruling(self) -> Ruling:
        verdicts = [Verdict.ERROR if each is None else each.verdict for each in self._answers]
        missing = len(self._functions) - len(verdicts)
        strictest = min(verdicts, key=_ORDER.index)
        decision = self._answers[verdicts.index(strictest)]
        answers = [*self._answers, *([None] * missing)]
        verdicts += [Verdict.NOT_EVALUATED] * missing
        records = tuple(
            _record(name, verdict, self._terms[0], answer)
            for (name, _), verdict, answer in zip(self._functions, verdicts, answers, strict=True)
        )
        wanted = tuple(
            each for each in self._answers if each and each.verdict is Verdict.REQUIRE_APPROVAL
        )
        return Ruling(strictest, decision, records, wanted, MappingProxyType(self._broken))

    def _overran(self) -> bool:
        return self._call.watch.now() > self._deadline

    def _break(self, error: BaseException) -> None:
        name, _ = self._functions[len(self._answers)]
        self._broken[name] = error
        self._answers.append(None)


def in_phase(phase: Phase, *groups: Sequence[Policy]) -> tuple[Policy, ...]:
    """Return the policies of one phase in the order they are asked, groups flattened."""
    flat = (each for group in groups for declared in group for each in flatten(declared))
    return tuple(each for each in flat if phase in each.phases)


def _record(name: str, verdict: Verdict, phase: Phase, decision: Decision | None) -> Record:
    record: dict[str, JSON] = {"policy": name, "decision": verdict.value, "phase": phase}
    if decision is not None and decision.metadata:
        record["metadata"] = decision.metadata
    if decision is not None and decision.verdict is Verdict.DENY and decision.reason is not None:
        record["reason"] = decision.reason
    return MappingProxyType(record)


def _not_awaitable(answer: object) -> object:
    """An answer that again has to be awaited is no decision."""
    if isinstance(answer, Awaitable):
        _discard(answer)
        return TypeError("a policy answered an awaitable of an awaitable")
    return answer


def _discard(answer: object) -> None:
    close = getattr(answer, "close", None)
    if isinstance(answer, Awaitable) and callable(close):
        close()
