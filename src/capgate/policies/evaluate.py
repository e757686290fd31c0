"""Asking every policy of one phase, and making one verdict of their answers.

All are asked, so that the record is complete, under one shared deadline. A policy that raises,
answers with something else or overruns the deadline counts as `error`; those after an overrun are
`not-evaluated`. Nothing here fails open.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, final

from capgate.errors import JSON
from capgate.policies.asking import Asking, contained, discard
from capgate.policies.decision import ALLOW, Decision, Verdict
from capgate.policies.policy import flatten
from capgate.policies.request import AWAITED, Phase, PolicyRequest

if TYPE_CHECKING:
    from capgate.call import Call, Clock
    from capgate.capability import CapabilityView, Policy
    from capgate.policies.request import Prompt

Record = Mapping[str, JSON]

_ALLOWED, _BROKEN, _UNASKED = Verdict.ALLOW, Verdict.ERROR, Verdict.NOT_EVALUATED
_ASKED: Final = Verdict.REQUIRE_APPROVAL
_DENIED: Final = Verdict.DENY


@final
class Ruling(NamedTuple):
    """The verdict of one batch.

    `decision` is the first decision that has the verdict, None for an error. `requirements` are
    all requests for approval, where nothing stricter was said. `broken` names each
    broken policy with what it raised.
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
        "_clock",
        "_functions",
        "_phase",
        "_records",
        "clear",
        "names",
        "numbered",
        "prompt",
        "seconds",
    )

    clear: Ruling
    names: tuple[str, ...]
    numbered: Prompt
    prompt: Prompt
    seconds: float

    def __init__(
        self, policies: Sequence[Policy], phase: Phase, *, seconds: float, clock: Clock
    ) -> None:
        """Prepare `policies`, already flattened and filtered to `phase`."""
        self._functions = tuple(
            (each.name, each.evaluate) for each in policies if each.evaluate is not None
        )
        self._phase: Phase = phase
        self.seconds = seconds
        self._clock = clock
        self.names = tuple(name for name, _ in self._functions)
        functions = [evaluate for _, evaluate in self._functions]
        self.numbered = tuple(enumerate(functions))
        # What a discovery walk asks in passing, as far as one can see that it answers at once.
        self.prompt = AWAITED if any(map(_looks_async, functions)) else self.numbered
        self._records = tuple(
            tuple(_record(name, verdict, phase) for verdict in Verdict) for name in self.names
        )
        allowed = tuple(records[_ALLOWED.rank] for records in self._records)
        self.clear = Ruling(Verdict.ALLOW, ALLOW, allowed)

    def __bool__(self) -> bool:
        return bool(self._functions)

    def rule(self, call: Call, view: CapabilityView) -> Ruling | Awaitable[Ruling]:
        """Ask every policy about `call` of the capability in `view`.

        Returns:
            The ruling; awaitable only when a policy is.
        """
        request: PolicyRequest[object] = PolicyRequest(call, self._phase, self._clock, view)
        now = call.watch.now
        deadline = now() + self.seconds
        for done, evaluate in self.numbered:
            try:
                answer = evaluate(request)
            except BaseException as error:
                answer = contained(error)
            if answer is not ALLOW or now() > deadline:
                return self.rule_on(call, request, done, answer, deadline)
        return self.clear

    def rule_on(
        self,
        call: Call,
        request: PolicyRequest[object],
        done: int,
        answer: object,
        deadline: float,
    ) -> Ruling | Awaitable[Ruling]:
        """Ask on where the first `done` policies allowed and the next one gave `answer`."""
        asking = Asking(self._functions, request, deadline, call.watch.now)
        pending = asking.go_on(done, answer)
        if pending is None:
            return self._ruling(asking)
        return self._later(asking, pending, call)

    def go_on(
        self, request: PolicyRequest[object], done: int, answer: object, now: Callable[[], float]
    ) -> Ruling | None:
        """Ask on where the first `done` policies allowed and the next one gave `answer`.

        Returns:
            None when an answer has to be awaited: it is dropped, and this batch never again
            counts as prompt.
        """
        asking = Asking(self._functions, request, now() + self.seconds, now)
        pending = asking.go_on(done, answer)
        if pending is None:
            return self._ruling(asking)
        discard(pending)
        self.prompt = AWAITED
        return None

    async def _later(self, asking: Asking, pending: Awaitable[object], call: Call) -> Ruling:
        await asking.finish(pending, call)
        return self._ruling(asking)

    def _ruling(self, asking: Asking) -> Ruling:
        """Combine the answers: the strictest verdict, and the record of every one."""
        answers, known = asking.answers, self._records
        strictest: Verdict = _ALLOWED
        decision: Decision | None = ALLOW
        # Those that simply allowed came first, and are most of them.
        records = [*self.clear.records[: asking.allowed]]
        for answer in answers[asking.allowed :]:
            verdict = _BROKEN if answer is None else answer.verdict
            if verdict.rank < strictest.rank:
                strictest, decision = verdict, answer
            record = known[len(records)][verdict.rank]
            records.append(record if answer is None else _detailed(record, answer))
        if len(answers) < len(known):
            records += [unasked[_UNASKED.rank] for unasked in known[len(answers) :]]
        asked = asking.requirements() if strictest is _ASKED else ()
        return Ruling(strictest, decision, tuple(records), asked, asking.broken)


def _record(name: str, verdict: Verdict, phase: Phase) -> Record:
    return MappingProxyType({"policy": name, "decision": verdict.value, "phase": phase})


def _detailed(record: Record, decision: Decision) -> Record:
    """Add what the policy told the audit; a request's reason is in its own event."""
    if not decision.metadata and decision.reason is None:
        return record
    told: dict[str, JSON] = dict(record)
    if decision.metadata:
        told["metadata"] = decision.metadata
    if decision.verdict is _DENIED and decision.reason is not None:
        told["reason"] = decision.reason
    return MappingProxyType(told)


def _looks_async(function: Callable[..., object]) -> bool:
    call = type(function).__call__
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def in_phase(phase: Phase, *groups: Sequence[Policy]) -> tuple[Policy, ...]:
    """Return the policies of one phase in the order they are asked, groups flattened."""
    flat = (each for group in groups for declared in group for each in flatten(declared))
    return tuple(each for each in flat if phase in each.phases)
