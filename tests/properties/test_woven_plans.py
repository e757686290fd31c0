"""Whatever policies answer and a handler does: woven or step by step, a call ends the same."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capgate import Actor, Engine, allow, deny, hide, policy, require_approval
from capgate.audit import MemoryAudit
from capgate.call import USUAL, outcome_of

DANA = Actor("u_dana")
ANSWERS = {
    "allows": allow(),
    "allows with a note": allow(note=1),
    "denies": deny("No."),
    "hides": hide(),
    "asks": require_approval("Ask."),
    "breaks": KeyError("canary"),
    "babbles": 7,
}
answers = st.lists(st.tuples(st.sampled_from(sorted(ANSWERS)), st.booleans()), max_size=5)
handlers = st.sampled_from(["returns", "waits", "fails", "lies"])
inputs = st.sampled_from([None, {}, {"n": 2}, {"n": "x"}, {"m": 1}, 3])


def a_policy(number, answer, awaited):
    """A policy that answers at once, or after a pause."""

    def now(request):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def later(request):
        await anyio.lowlevel.checkpoint()
        return now(request)

    return policy(f"p{number}")(later if awaited else now)


def an_engine(policies, does):
    """An engine with one capability, and its events."""
    sink = MemoryAudit()
    made = [a_policy(i, ANSWERS[name], awaited) for i, (name, awaited) in enumerate(policies)]
    engine = Engine("test", policies=made, audit=sink, on_internal_error=lambda _: None)

    @engine.capability("act")
    async def act(n: int = 1) -> int:
        """Act."""
        if does == "waits":
            await anyio.lowlevel.checkpoint()
        if does == "fails":
            raise ValueError(n)
        return "text" if does == "lies" else n

    return engine, sink


async def ended(policies, does, claimed, *, woven):
    """How a call ends, without its ids and times, and what was told of it."""
    engine, sink = an_engine(policies, does)
    id_, plan = engine._caller._plan("act", "direct")
    call = engine._caller.begin(id_, plan, "direct", (claimed, DANA, None), USUAL)
    outcome = await (plan.carry if woven else plan.carry_guarded)(call, outcome_of)
    error = getattr(outcome, "error", None)
    said = error and (error.code, error.stage, error.public_message, error.reason, error.details)
    end = outcome.status, outcome.effect, said, getattr(outcome, "output", None), call.entered
    left_out = {"duration_ms", "approval_id", "expires_at"}
    data = [{k: v for k, v in event.data.items() if k not in left_out} for event in sink.events]
    return end, [event.type for event in sink.events], data


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(policies=answers, does=handlers, claimed=inputs)
def test_woven_or_step_by_step_it_is_one_outcome(backend, policies, does, claimed):
    """The outcome, the events and their data are the same, whichever way a plan is run."""

    async def both():
        woven = await ended(policies, does, claimed, woven=True)
        assert woven == await ended(policies, does, claimed, woven=False)

    anyio.run(both, backend=backend)
