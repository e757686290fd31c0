"""Asking every policy of one phase, and making one verdict of their answers.

All are asked, so that the record is complete, under one shared deadline. A policy that raises,
answers with something else or overruns the deadline counts as `error`; those after an overrun are
`not-evaluated`. Nothing here fails open.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

from capgate.call import Overrun, Stray, bounded, is_exit
from capgate.errors import JSON
from capgate.policies.decision import ALLOW, Decision, Verdict, captured, problem_of
from capgate.policies.policy import flatten
from capgate.policies.request import Phase, PolicyRequest

if TYPE_CHECKING:
    from capgate.call import Call, Clock
    from capgate.capability import CapabilityView, Policy

Record = Mapping[str, JSON]

_ORDER: Final = {verdict: place for place, verdict in enumerate(Verdict)}


def contained(raised: BaseException) -> BaseException:
    """Return what synchronous foreign code raised, unless it must leave the process.

    No cancellation reaches synchronous code: one raised there is made up, and counts as broken.
    """
    if is_exit(raised):
        raise raised
    return raised


class Ruling(NamedTuple):
    """The verdict of one batch.

    `decision` is the first decision that has the verdict, None for an error. `requirements` are
    all requests for approval. `broken` names each broken policy with what it raised.
    """

    verdict: Verdict
    decision: Decision | None
    records: tuple[Record, ...]
    requirements: tuple[Decision, ...] = ()
    broken: tuple[tuple[str, BaseException], ...] = ()

    def first_broken(self) -> BaseException | None:
        """Return what the first broken policy raised."""
        return self.broken[0][1] if self.broken else None


class PolicyBatch:
    """The policies of one capability in one phase, made once."""

    __slots__ = (
        "_all_allow",
        "_clock",
        "_functions",
        "_phase",
        "_records",
        "_seconds",
        "names",
        "prompt",
    )

    def __init__(
        self, policies: Sequence[Policy], phase: Phase, *, seconds: float, clock: Clock
    ) -> None:
        """Prepare `policies`, already flattened and filtered to `phase`."""
        self._functions = tuple(
            (each.name, each.evaluate) for each in policies if each.evaluate is not None
        )
        self._phase: Phase = phase
        self._seconds = seconds
        self._clock = clock
        self.names = tuple(name for name, _ in self._functions)
        functions = [evaluate for _, evaluate in self._functions]
        # The functions with their places if all answer at once, as far as one can see; or None.
        self.prompt = None if any(map(_looks_async, functions)) else tuple(enumerate(functions))
        self._records = tuple(
            {verdict: _record(name, verdict, phase) for verdict in Verdict} for name in self.names
        )
        allowed = tuple(records[Verdict.ALLOW] for records in self._records)
        self._all_allow = Ruling(Verdict.ALLOW, ALLOW, allowed)

    def __bool__(self) -> bool:
        return bool(self._functions)

    def rule(self, call: Call, view: CapabilityView) -> Ruling | Awaitable[Ruling]:
        """Ask every policy about `call` of the capability in `view`.

        Returns:
            The ruling; awaitable only when a policy is.
        """
        request: PolicyRequest[object] = PolicyRequest(call, self._phase, self._clock, view)
        now = call.watch.now
        deadline = now() + self._seconds
        done = 0
        for _, evaluate in self._functions:
            try:
                answer = evaluate(request)
            except BaseException as error:
                answer = contained(error)
            if answer is not ALLOW or now() > deadline:
                asking = _Asking(self._functions, request, deadline, now)
                pending = asking.go_on(done, answer)
                return self._ruling(asking) if pending is None else self._later(asking, pending)
            done += 1
        return self._all_allow

    def go_on(
        self, request: PolicyRequest[object], done: int, answer: object, now: Callable[[], float]
    ) -> Ruling | None:
        """Ask on where the first `done` policies allowed and the next one gave `answer`.

        Returns:
            None when an answer has to be awaited: it is dropped, and this batch never again
            counts as prompt.
        """
        asking = _Asking(self._functions, request, now() + self._seconds, now)
        pending = asking.go_on(done, answer)
        if pending is None:
            return self._ruling(asking)
        discard(pending)
        self.prompt = None
        return None

    async def _later(self, asking: _Asking, pending: Awaitable[object]) -> Ruling:
        await asking.finish(pending)
        return self._ruling(asking)

    def _ruling(self, asking: _Asking) -> Ruling:
        """Combine the answers: the strictest verdict, and the record of every one."""
        answers = asking.answers
        verdicts = [Verdict.ERROR if each is None else each.verdict for each in answers]
        strictest = min(verdicts, key=_ORDER.__getitem__)
        decision = answers[verdicts.index(strictest)]
        verdicts += [Verdict.NOT_EVALUATED] * (len(self._functions) - len(verdicts))
        records = [known[verdict] for known, verdict in zip(self._records, verdicts, strict=True)]
        for index, answer in enumerate(answers):
            if answer is not None and (answer.metadata or answer.reason is not None):
                records[index] = _detailed(records[index], answer)
        return Ruling(strictest, decision, tuple(records), asking.requirements(), asking.broken)


class _Asking:
    """One batch under way, once an answer was not a plain allow."""

    __slots__ = ("_deadline", "_functions", "_now", "_overrun", "_request", "answers", "broken")

    def __init__(
        self,
        functions: Sequence[tuple[str, Callable[..., object]]],
        request: PolicyRequest[object],
        deadline: float,
        now: Callable[[], float],
    ) -> None:
        self._functions = functions
        self._request = request
        self._deadline = deadline
        self._now = now
        self._overrun = False
        self.answers: list[Decision | None] = []
        self.broken: tuple[tuple[str, BaseException], ...] = ()

    def go_on(self, allowed: int, answer: object) -> Awaitable[object] | None:
        """Take up a batch whose first `allowed` policies allowed and whose next gave `answer`."""
        self.answers = [ALLOW] * allowed
        return self._take(answer) or self._advance()

    async def finish(self, pending: Awaitable[object] | None) -> None:
        """Await answers until all are in, each within what is left of the batch's time."""
        while pending is not None:
            remaining = max(self._deadline - self._now(), 1e-9)
            try:
                answer = await bounded(pending, remaining)
            except (Overrun, Stray, Exception) as error:
                answer = error
            pending = self._take(_settled(answer)) or self._advance()

    def requirements(self) -> tuple[Decision, ...]:
        """Return every request for approval."""
        return tuple(
            each for each in self.answers if each and each.verdict is Verdict.REQUIRE_APPROVAL
        )

    def _take(self, answer: object) -> Awaitable[object] | None:
        """Record one answer, or return it if it has to be awaited."""
        if self._now() > self._deadline:
            discard(answer)
            self._break(Overrun("the batch of policies ran out of time"))
            self._overrun = True
        elif type(answer) is Decision:
            self._decide(answer)
        elif _is_raised(answer):
            self._break(answer)
        elif is_awaitable(answer):
            return answer
        else:
            self._break(TypeError(f"a policy answered {type(answer).__name__}, not a decision"))
        return None

    def _decide(self, decision: Decision) -> None:
        try:
            problem = problem_of(decision)
            kept = captured(decision)
        except Exception as error:
            # Made by hand, of parts that break when they are looked at.
            self._break(error)
        else:
            if problem is None:
                self.answers.append(kept)
            else:
                self._break(TypeError(f"a policy's decision is malformed: {problem}"))

    def _advance(self) -> Awaitable[object] | None:
        """Ask on until an answer has to be awaited or all are in."""
        while len(self.answers) < len(self._functions) and not self._overrun:
            _, evaluate = self._functions[len(self.answers)]
            try:
                answer = evaluate(self._request)
            except BaseException as error:
                answer = contained(error)
            pending = self._take(answer)
            if pending is not None:
                return pending
        return None

    def _break(self, error: BaseException) -> None:
        name, _ = self._functions[len(self.answers)]
        self.broken = (*self.broken, (name, error))
        self.answers.append(None)


def _record(name: str, verdict: Verdict, phase: Phase) -> Record:
    return MappingProxyType({"policy": name, "decision": verdict.value, "phase": phase})


def _detailed(record: Record, decision: Decision) -> Record:
    """Add what the policy told the audit; a request's reason is in its own event."""
    told: dict[str, JSON] = dict(record)
    if decision.metadata:
        told["metadata"] = decision.metadata
    if decision.verdict is Verdict.DENY and decision.reason is not None:
        told["reason"] = decision.reason
    return MappingProxyType(told)


def _settled(answer: object) -> object:
    """An answer that again has to be awaited is no decision."""
    if is_awaitable(answer):
        discard(answer)
        return TypeError("a policy answered an awaitable of an awaitable")
    return answer


def is_awaitable(answer: object) -> TypeGuard[Awaitable[object]]:
    """Tell whether an answer has to be awaited; the real type is asked, the object may lie."""
    return issubclass(type(answer), Awaitable)


def _is_raised(answer: object) -> TypeGuard[BaseException]:
    return issubclass(type(answer), BaseException)


def discard(answer: object) -> None:
    """Close an answer that nobody will await."""
    if not is_awaitable(answer):
        return
    try:
        close = getattr(answer, "close", None)
        if callable(close):
            close()
    except BaseException as error:  # it was too late already
        contained(error)


def _looks_async(function: Callable[..., object]) -> bool:
    call = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def in_phase(phase: Phase, *groups: Sequence[Policy]) -> tuple[Policy, ...]:
    """Return the policies of one phase in the order they are asked, groups flattened."""
    flat = (each for group in groups for declared in group for each in flatten(declared))
    return tuple(each for each in flat if phase in each.phases)
