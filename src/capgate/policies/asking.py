"""One batch of policies under way: taking each answer as it comes, whatever it turns out to be.

What the answers amount to is made next door, in `evaluate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from capgate.call import Overrun, Stray, bounded, is_awaitable
from capgate.errors import is_exit
from capgate.policies.decision import ALLOW, Decision, Verdict, captured, problem_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from capgate.call import Call
    from capgate.policies.request import PolicyRequest


def contained(raised: BaseException) -> BaseException:
    """Return what synchronous foreign code raised, unless it must leave the process.

    No cancellation reaches synchronous code: one raised there is made up, and counts as broken.
    """
    if is_exit(raised):
        raise raised
    return raised


class Asking:
    """One batch under way, once an answer was not a plain allow."""

    __slots__ = (
        "_deadline",
        "_functions",
        "_now",
        "_overrun",
        "_request",
        "allowed",
        "answers",
        "broken",
    )

    allowed: int

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
        self.allowed = 0
        self.answers: list[Decision | None] = []
        self.broken: tuple[tuple[str, BaseException], ...] = ()

    def go_on(self, allowed: int, answer: object) -> Awaitable[object] | None:
        """Take up a batch whose first `allowed` policies allowed and whose next gave `answer`."""
        self.allowed = allowed
        self.answers = [ALLOW] * allowed
        return self._ask_on(answer)

    async def finish(self, pending: Awaitable[object] | None, call: Call) -> None:
        """Await answers until all are in, each within what is left of the batch's time."""
        while pending is not None:
            remaining = max(self._deadline - self._now(), 1e-9)
            try:
                answer = await bounded(pending, remaining, call)
            except (Overrun, Stray, Exception) as error:
                answer = error
            pending = self._ask_on(_settled(answer))

    def requirements(self) -> tuple[Decision, ...]:
        """Return every request for approval."""
        return tuple(
            each
            for each in self.answers
            if each is not None and each.verdict is Verdict.REQUIRE_APPROVAL
        )

    def _ask_on(self, answer: object) -> Awaitable[object] | None:
        """Record one answer and ask on until one has to be awaited or all are in."""
        functions, answers, request = self._functions, self.answers, self._request
        while True:
            pending = self._take(answer)
            if pending is not None:
                return pending
            if self._overrun or len(answers) == len(functions):
                return None
            _, evaluate = functions[len(answers)]
            try:
                answer = evaluate(request)
            except BaseException as error:
                answer = contained(error)

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

    def _break(self, error: BaseException) -> None:
        name, _ = self._functions[len(self.answers)]
        self.broken = (*self.broken, (name, error))
        self.answers.append(None)


def _settled(answer: object) -> object:
    """An answer that again has to be awaited is no decision."""
    if is_awaitable(answer):
        discard(answer)
        return TypeError("a policy answered an awaitable of an awaitable")
    return answer


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
