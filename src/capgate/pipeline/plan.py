"""The plan of one capability: all its bound steps, and the loop that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from capgate.call import Interrupted, attach, stopped
from capgate.errors import JSON, CapabilityError, ErrorCode
from capgate.pipeline.discovery import Discovery, concealed
from capgate.pipeline.evidence import NO_DATA, frozen
from capgate.pipeline.execution import Execution
from capgate.pipeline.settling import call_back
from capgate.pipeline.usual_end import usual_end
from capgate.pipeline.weaving import weave

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from capgate.call import Call, CallGuard, InputForm
    from capgate.capability import CapabilityView
    from capgate.pipeline.ending import Ending
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime
    from capgate.pipeline.stage import Bound
    from capgate.pipeline.weaving import Carry


T = TypeVar("T")

_TOLD: Final = """\
if noted is not None:
    await watch.shielded(noted)
"""


class Line(NamedTuple):
    """One stage as bound: what runs on a fresh call, what on resume, what `describe` says."""

    fresh: Bound | None
    resumed: Bound | None
    described: Mapping[str, JSON]


class Plan:
    """How every call of one capability runs, or how every call of nothing is refused."""

    __slots__ = (
        "_after",
        "_ending",
        "_fresh",
        "_requested",
        "_resumed",
        "_runtime",
        "_straight",
        "_telling",
        "_unprepared",
        "capability",
        "carry",
        "described",
        "form",
        "refuses",
        "view",
    )

    capability: Enrolled | None
    carry: Carry
    described: tuple[Mapping[str, JSON], ...]
    form: InputForm | None
    refuses: bool
    view: CapabilityView | None

    def __init__(
        self,
        lines: Iterable[Line],
        after: Iterable[Line],
        ending: Ending,
        *,
        runtime: Runtime,
        capability: Enrolled | None,
        refuses: bool = False,
    ) -> None:
        """Hold bound steps; use `plan_for` and `plan_refusal`."""
        before, behind = tuple(lines), tuple(after)
        self._fresh = tuple(line.fresh for line in before if line.fresh is not None)
        self._resumed = tuple(line.resumed for line in before if line.resumed is not None)
        self._after = tuple(line.fresh for line in behind if line.fresh is not None)
        every = self._fresh + self._after
        self._straight = tuple(step for step in every if not step.seldom)
        # The step in whose name a call is refused that has no dependencies.
        judges = (step for step in self._fresh if step.stage == Discovery.name)
        self._unprepared = next(judges, self._fresh[-1])
        self.described = tuple(line.described for line in (*before, *behind))
        self.capability = capability
        self.refuses = refuses
        self._runtime = runtime
        self._ending = ending
        self._telling = runtime.evidence.active
        self.view = view = None if capability is None else capability.view
        form = None if capability is None else capability.definition.contract
        self.form = cast("InputForm | None", form)
        self._requested = (
            NO_DATA if view is None else frozen(side_effect=view.side_effect, risk=view.risk)
        )
        self.carry = self._weave

    def _weave(self, call: Call, end: Callable[[Call], T], /) -> Coroutine[Any, Any, T]:
        """Carry the first usual call, and from now on all: by the woven function."""
        evidence = self._runtime.evidence
        start = evidence.piece("capability.requested", "asked", _TOLD, asked=self._requested)
        ending = usual_end(self._ending, evidence)
        self.carry = weave(start, self._straight, ending, self._runtime.live)
        return self.carry(call, end)

    async def carry_guarded(self, call: Call, end: Callable[[Call], T]) -> T:
        """Run any other call: one with limits of its own, resumed, nested, or with deps to make.

        Returns and raises as `Carry` says.
        """
        attach(call)
        live = self._runtime.live
        live.add(call)
        try:
            try:
                if self._telling:
                    note = self._runtime.evidence.note
                    noted = note("capability.requested", call, self._claim(call))
                    if noted is not None:
                        await call.watch.shielded(noted)
                await self._run_guarded(call)
            except BaseException as raised:  # judged by the ending
                call.raised = raised
            concluding = self._ending.conclude(call)
            if concluding is not None:
                await concluding
        finally:
            live.discard(call)
        return end(call)

    async def _run_guarded(self, call: Call) -> None:
        """Run the steps up to the handler inside the call's own scope, the others after it."""
        guard = call.guard
        try:
            if call.prepare is not None:
                await self._prepare(call, call.prepare)
            if call.raised is None:
                steps = self._resumed if call.resumed else self._fresh
                if guard is None:
                    await self._walk(call, steps)
                else:
                    await self._walk_within(call, guard, steps)
        finally:
            if guard is not None:
                guard.rest()
        if call.raised is None:
            await self._walk(call, self._after)

    async def _prepare(self, call: Call, prepare: Callable[[], Awaitable[None]]) -> None:
        """Have the dependencies made, without which nothing runs."""
        call.step = self._unprepared
        call.prepare = None
        try:
            if stopped(call):
                raise Interrupted
            await prepare()
        except BaseException as raised:  # judged by the ending
            call.raised = self._of_dependencies(call, raised)

    def _of_dependencies(self, call: Call, raised: BaseException) -> BaseException:
        """Return what ends a call whose dependencies could not be made.

        Where policies of the discovery phase could not be asked, nothing is revealed.
        """
        if not issubclass(type(raised), Exception) or type(raised) is Interrupted:
            return raised
        if self._unprepared.stage == Discovery.name:
            return concealed(call, "policy-failed", raised)
        error = CapabilityError(ErrorCode.INTERNAL_ERROR)
        error.__cause__ = raised
        return error

    async def _walk_within(self, call: Call, guard: CallGuard, steps: tuple[Bound, ...]) -> None:
        """Run steps inside the call's own scope."""
        try:
            with guard.scope:
                await self._walk(call, steps)
        except Exception as broken:
            # The handler left a scope of its own open in ours, which cannot be left in order.
            if call.raised is None:
                call.raised, call.step = broken, steps[-1]
        if guard.cause is not None and call.raised is None and call.native():
            # It returned after all, but the caller has been cancelled too.
            call.raised, call.step = Interrupted(), steps[-1]

    def _claim(self, call: Call) -> Mapping[str, JSON]:
        if call.approval_id is None:
            return self._requested
        return frozen(**self._requested, approval_id=call.approval_id)

    async def _walk(self, call: Call, steps: tuple[Bound, ...]) -> None:
        """Run steps in order until one raises; what it raised is kept, the scope is left clean."""
        step: Bound | None = None
        try:
            # A token that has fired by now stops every call alike, also one of nothing.
            if call.guard is not None and not call.returned and stopped(call):
                raise Interrupted
            for step in steps:
                answer = step.run(call)
                if isinstance(answer, CapabilityError):
                    raise answer
                if answer is not None:
                    await answer
        except BaseException as raised:  # judged by the ending, after the scope is left
            call.raised, call.step = raised, step

    async def explain(self, call: Call) -> list[tuple[str, str, str | None]]:
        """Run every stage but execution and what follows it, and tell each one's verdict."""
        verdicts: list[tuple[str, str, str | None]] = []
        last = self._unprepared
        if call.prepare is not None:
            await self._prepare(call, call.prepare)
        for last in self._fresh if call.raised is None else ():
            if last.stage == Execution.name and not self.refuses:
                break
            await self._walk(call, (last,))
            if call.raised is not None:
                break
            verdicts.append((last.stage, "passed", None))
        await call_back(call, self._runtime.policy_timeout)
        if call.raised is not None:
            verdicts.append((last.stage, *self._ending.verdict(call)))
        return verdicts
