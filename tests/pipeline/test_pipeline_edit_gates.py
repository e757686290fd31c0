"""A pipeline that lacks a default stage never lets through what that stage would have stopped."""

from __future__ import annotations

import pytest

from capgate import (
    Actor,
    CapabilityError,
    Completed,
    ConfigurationError,
    Engine,
    Pipeline,
    hide,
    policy,
    require_approval,
)

DANA = Actor("u_dana")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@policy("asks")
def asks(request):
    return require_approval("Somebody must agree.")


@policy("asks-late", phases={"execution"})
def asks_late(request):
    return require_approval("Somebody must agree.")


@policy("hides", phases={"discovery"})
def hides(request):
    return hide()


@pytest.mark.parametrize(
    ("removed", "rule"), [("approval", asks), ("approval", asks_late), ("discovery", hides)]
)
@pytest.mark.parametrize("own", [False, True])
async def test_a_policy_whose_stage_is_gone_never_lets_a_call_through(removed, rule, own):
    """Without the stage that obeys a policy, a call is refused or nothing can be built (SI-7)."""
    ran = []

    async def cap() -> None:
        """Note that it ran."""
        ran.append(1)

    pipeline = Pipeline.default().without(removed, unsafe=True)
    try:
        engine = Engine("test", pipeline=pipeline, policies=() if own else [rule])
        engine.capability("cap", policies=[rule] if own else [])(cap)
    except ConfigurationError:
        return
    outcome = await engine.attempt("cap", actor=DANA)
    assert not ran
    assert not isinstance(outcome, Completed)


@pytest.mark.parametrize("removed", ["authentication", "discovery", "input-validation"])
async def test_an_anonymous_caller_stays_out(removed):
    """Without an earlier stage, `access="authenticated"` still refuses who is nobody (SI-1)."""
    engine = Engine("test", pipeline=Pipeline.default().without(removed, unsafe=True))

    @engine.capability("cap")
    async def cap() -> None:
        """Do nothing."""

    with pytest.raises(CapabilityError, match="UNAUTHENTICATED"):
        await engine.invoke("cap")


@pytest.mark.parametrize("removed", ["authentication", "discovery"])
async def test_exposure_does_not_need_the_discovery_stage(removed):
    """What is not exposed, or unknown, stays missing whatever was removed (SI-8)."""
    engine = Engine("test", pipeline=Pipeline.default().without(removed, unsafe=True))

    @engine.capability("cap", access="public", expose={"test"})
    async def cap() -> None:
        """Do nothing."""

    for name in ("cap", "nope"):
        with pytest.raises(CapabilityError, match="CAPABILITY_NOT_FOUND"):
            await engine.invoke(name, actor=DANA)
