"""Settings that would be ignored, sources that break, and tracebacks that show no value."""

from __future__ import annotations

from enum import StrEnum

import pytest
import structlog.testing

from capgate import (
    Actor,
    CapabilityError,
    ConfigurationError,
    Context,
    Engine,
    Pipeline,
    Retry,
    allow,
    policy,
)

DANA = Actor("u_dana")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Ids(StrEnum):
    CAP = "cap"


def judge(phase):
    return policy("judge", phases={phase})(lambda request: allow())


@pytest.mark.parametrize(("phase", "stage"), [("discovery", "discovery"), ("invocation", "policy")])
@pytest.mark.parametrize("own", [False, True])
def test_a_policy_needs_the_stage_that_asks_it(phase, stage, own):
    """A policy whose stage was removed cannot be declared, on the engine or a capability (SI-7)."""
    pipeline = Pipeline.default().without(stage, unsafe=True)

    async def cap() -> None:
        """Do nothing."""

    def build():
        engine = Engine("test", pipeline=pipeline, policies=[] if own else [judge(phase)])
        engine.capability("cap", access="public", policies=[judge(phase)] if own else [])(cap)

    with pytest.raises(ConfigurationError, match=stage):
        build()


def test_a_policy_of_the_execution_phase_needs_no_other_stage():
    """Execution itself asks the policies of its phase."""
    pipeline = Pipeline.default().without("policy", unsafe=True)
    assert Engine("test", pipeline=pipeline, policies=[judge("execution")]).name == "test"


@pytest.mark.parametrize("answer", ["junk", -1, 2, float("nan"), None, ValueError()])
async def test_a_jitter_that_breaks_is_replaced(answer):
    """A source of jitter that raises or answers junk is reported, and the retry goes on."""

    def jitter():
        if isinstance(answer, Exception):
            raise answer
        return answer

    engine = Engine("test", jitter=jitter)

    @engine.capability("cap", side_effect="read", risk="low", retry=Retry(2, backoff=0.001))
    async def cap(ctx: Context) -> int:
        """Fail once."""
        if ctx.attempt_number == 1:
            raise CapabilityError("EXECUTION_FAILED", retryable=True)
        return 1

    with structlog.testing.capture_logs() as logs:
        assert await engine.invoke("cap", actor=DANA) == 1
    assert "jitter_failed" in [entry["event"] for entry in logs]


async def test_a_traceback_ends_at_a_broken_contract():
    """What a validator of an inner call says of the value is in no log line (SI-10)."""
    engine = Engine("test")

    @engine.capability("inner")
    async def inner(n: int) -> int:
        """Give it back."""
        return n

    @engine.capability("outer")
    async def outer(ctx: Context) -> int:
        """Pass on what does not fit."""
        return await ctx.invoke("inner", {"n": "canary"})

    with structlog.testing.capture_logs() as logs:
        await engine.attempt("outer", actor=DANA)
    assert "in outer" in logs[0]["exception"]
    assert "canary" not in logs[0]["exception"].replace('{"n": "canary"}', "")


async def test_a_member_of_a_str_enum_is_an_id():
    """Ids and surfaces may be members of a `StrEnum`."""
    engine = Engine("test")

    @engine.capability("cap")
    async def cap(ctx: Context) -> str:
        """Name the capability."""
        return ctx.capability_id

    assert type(await engine.invoke(Ids.CAP, actor=DANA)) is str
    assert engine.describe(Ids.CAP).id == "cap"
