"""The handler, and everything that must stand right before it.

In order: execution-phase policies, limits, the grant is spent, `capability.started`, then the
handler inside its scope, with retries. Whatever can refuse comes before the grant is spent; if
the handler is not reached after that, the grant is given back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from capgate.approvals import covers
from capgate.call import Interrupted, stopped
from capgate.errors import FailureStage
from capgate.pipeline.attempt import Attempt
from capgate.pipeline.gate import Gate, requirement_of
from capgate.pipeline.grant import release_grant, spend_grant
from capgate.pipeline.policy import take_ruling
from capgate.pipeline.retrying import Retrying
from capgate.pipeline.slots import Places, Slots
from capgate.pipeline.stage import CoreStage, CoreStep
from capgate.pipeline.weaving import Piece, filled
from capgate.policies import PolicyBatch, Ruling, in_phase

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.call import Call
    from capgate.pipeline.enrolled import Enrolled
    from capgate.pipeline.runtime import Runtime


_STRAIGHT: Final = """\
if call.approval is None:
    {once}
else:
    await execute(call)
"""


class Execution(CoreStage):
    """Runs the handler; it cannot be removed."""

    name = FailureStage.EXECUTION.value
    failure_stage = FailureStage.EXECUTION

    def prepare(self, capability: Enrolled, runtime: Runtime) -> CoreStep:
        """Bind the handler, its limits, timeout and retries."""
        executing = _Executing(capability, runtime)
        detail = executing.describe()
        return CoreStep(executing.open, executing.run, detail, piece=executing.piece)


class _Executing:
    __slots__ = ("_batch", "_gate", "_places", "_plain", "_retries", "_runtime", "_view", "attempt")

    def __init__(self, capability: Enrolled, runtime: Runtime) -> None:
        policies = in_phase("execution", runtime.policies, capability.definition.policies)
        self._batch = PolicyBatch(
            policies, "execution", seconds=runtime.policy_timeout, clock=runtime.clock
        )
        self._gate = Gate(capability, runtime)
        self.attempt = Attempt(capability, runtime)
        own = capability.definition.max_concurrency
        slots = None if own is None else Slots(own, runtime.limits.max_queue)
        self._places = places = Places(runtime.places, slots, self.attempt.timeout)
        retry = capability.definition.retry
        self._retries = None if retry is None else Retrying(self.attempt, places, retry, runtime)
        self._runtime = runtime
        self._view = capability.view
        self._plain = not (self._batch or self._places or self._retries)

    def open(self, call: Call) -> Awaitable[None]:
        """Run the handler: straight, where nothing stands before it."""
        if self._plain and call.approval is None:
            return self.attempt.once(call)
        return self.run(call)

    def piece(self) -> Piece | None:
        once = self.attempt.piece() if self._plain else None
        if once is None:
            return None
        return Piece(filled(_STRAIGHT, once=once.text), {**once.names, "execute": self.run})

    def describe(self) -> str:
        parts = [f"timeout {self.attempt.timeout:g} s an attempt"]
        if self._batch:
            parts.insert(0, f"policies: {', '.join(self._batch.names)}")
        if self._places:
            parts.append("limited concurrency")
        if self._retries is not None:
            parts.append(self._retries.describe())
        return "; ".join(parts)

    async def run(self, call: Call) -> None:
        if self._batch:
            await self._ask_policies(call)
        try:
            if self._places:
                await self._places.take(call)
            await self._execute(call)
        except GeneratorExit:
            raise  # a closed coroutine can await nothing
        except BaseException:
            if call.spent and not call.entered:
                await call.watch.shielded(release_grant(call, self._runtime))
            raise
        finally:
            if call.places:
                call.take_places()()

    async def _execute(self, call: Call) -> None:
        if call.approval is not None:
            if stopped(call):
                raise Interrupted
            await spend_grant(call, self._runtime)
        if self._retries is None:
            await self.attempt.once(call)
        else:
            await self._retries.run(call)

    async def _ask_policies(self, call: Call) -> None:
        ruling = self._batch.rule(call, self._view)
        if not isinstance(ruling, Ruling):
            ruling = await ruling
        before = call.requirements
        refused = take_ruling(call, ruling, self._runtime)
        if refused is not None:
            raise refused
        asked = (requirement_of(decision) for decision in call.requirements[len(before) :])
        granted = call.approval
        missing = tuple(each for each in asked if granted is None or not covers(granted, each))
        if missing:
            await self._gate.ask(call, missing)
