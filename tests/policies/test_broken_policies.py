"""Policies that raise, hang or lie: never open, and the record says which one it was."""

from __future__ import annotations

import time

import anyio
import pytest

from capgate import CapabilityError, ErrorCode, Limits, allow, deny, policy, public_error

GENERIC = {"code": "INTERNAL_ERROR", "message": "The operation failed.", "retryable": False}
BRIEF = Limits(policy_timeout=0.05)
SOON = Limits(policy_timeout=0.3)


@policy("hanging")
async def hanging(request):
    await anyio.sleep_forever()


@policy("blocking")
def blocking(request):
    time.sleep(0.06)
    return allow()


@policy("before")
def before(request):
    return allow()


@policy("after")
def after(request):
    return allow()


@policy("after-async")
async def after_async(request):
    return allow()


@policy("denying")
def denying(request):
    return deny("No.")


@pytest.mark.parametrize(
    "raised", [RuntimeError("canary"), CapabilityError(ErrorCode.FORBIDDEN, "canary"), KeyError()]
)
async def test_a_policy_that_raises_fails_closed(court, raised):
    """SI-7, SI-9: POLICY_FAILED with the cause kept private (reference A 55)."""

    @policy("broken")
    async def broken(request):
        raise raised

    built = court(broken, after)
    error = (await built.judge()).error
    assert (error.code, error.stage, error.retryable) == ("POLICY_FAILED", "policy", False)
    assert error.__cause__ is raised
    assert public_error(error) == GENERIC
    assert built.decisions() == [("broken", "error"), ("after", "allow")]
    assert built.audit.events[-1].data["reason"] == "policy-failed"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_cancellation_that_a_policy_makes_up_fails_closed(
    court, anyio_backend_name, is_async
):
    """SI-7: a policy cannot cancel the call it judges."""
    if anyio_backend_name == "trio":
        pytest.skip("trio's cancellation cannot be raised by hand")

    def stray(request):
        raise anyio.get_cancelled_exc_class()

    async def stray_later(request):
        raise anyio.get_cancelled_exc_class()

    built = court(policy("stray")(stray_later if is_async else stray), after)
    assert (await built.judge()).error.code == "POLICY_FAILED"
    assert built.decisions() == [("stray", "error"), ("after", "allow")]


@pytest.mark.parametrize("slow", [hanging, blocking], ids=lambda p: p.name)
async def test_out_of_time_is_deterministic(court, slow):
    """The slow one is `error`, all after it `not-evaluated`, every time (reference A 59)."""
    for _ in range(3):
        built = court(before, slow, after, after_async, denying, limits=BRIEF)
        assert (await built.judge()).error.code == "POLICY_FAILED"
        assert built.decisions() == [
            ("before", "allow"),
            (slow.name, "error"),
            ("after", "not-evaluated"),
            ("after-async", "not-evaluated"),
            ("denying", "not-evaluated"),
        ]


async def test_an_authored_denial_survives_a_slow_policy(court):
    """A broken policy never hides a denial: the author's message is shown (reference A 61)."""
    built = court(denying, hanging, limits=BRIEF)
    error = (await built.judge()).error
    assert (error.code, error.public_message) == ("POLICY_DENIED", "No.")
    assert built.decisions() == [("denying", "deny"), ("hanging", "error")]


async def test_the_deadline_is_shared_by_the_batch(court):
    """One deadline for all: each in time, together too late (reference A 56, 58)."""

    def half(name):
        @policy(name)
        async def wait(request):
            await anyio.sleep(0.2)
            return allow()

        return wait

    built = court(half("first"), half("second"), after, limits=SOON)
    assert (await built.judge()).error.code == "POLICY_FAILED"
    assert built.decisions() == [
        ("first", "allow"),
        ("second", "error"),
        ("after", "not-evaluated"),
    ]


async def test_a_policy_that_swallows_its_interruption_is_late_all_the_same(court):
    """SI-7: a late answer is no answer."""

    @policy("stubborn")
    async def stubborn(request):
        try:
            await anyio.sleep_forever()
        except BaseException:
            return allow()

    built = court(stubborn, limits=BRIEF)
    assert (await built.judge()).error.code == "POLICY_FAILED"
    assert built.ran == []


@pytest.mark.parametrize("phase", ["discovery", "execution"])
async def test_a_policy_that_hangs_is_bounded_in_every_phase(court, phase):
    """SI-12: no phase can hold a call for ever."""

    @policy("hanging", phases={phase})
    async def hang(request):
        await anyio.sleep_forever()

    outcome = await court(hang, limits=BRIEF).judge()
    expected = "CAPABILITY_NOT_FOUND" if phase == "discovery" else "POLICY_FAILED"
    assert outcome.error.code == expected


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_an_exit_of_the_process_goes_on(court, kind):
    """The one thing a policy's failure is not turned into a refusal."""

    def leave(request):
        raise kind

    built = court(policy("leaving")(leave))
    with pytest.raises(kind):
        await built.judge()
    assert built.ran == []
    assert built.audit.events[-1].type == "capability.failed"


async def test_the_first_broken_policy_is_the_cause(court):
    """The operator is shown what broke first."""

    def breaking(number):
        def broken(request):
            raise RuntimeError(str(number))

        return policy(f"broken-{number}")(broken)

    error = (await court(breaking(1), breaking(2)).judge()).error
    assert str(error.__cause__) == "1"


async def test_an_awaitable_of_an_awaitable_is_no_decision(court):
    """SI-7: a forgotten `await` fails closed, and what was not awaited is closed quietly."""

    async def inner():
        return allow()

    async def forgetful(request):
        return inner()

    built = court(policy("forgetful")(forgetful), after)
    assert (await built.judge()).error.code == "POLICY_FAILED"
    assert built.decisions() == [("forgetful", "error"), ("after", "allow")]


async def test_a_coroutine_handed_over_too_late_is_not_run(court):
    """SI-7: the function itself used up the time; its coroutine is closed, not awaited."""
    entered = []

    async def answer():
        entered.append(1)
        return allow()

    def late(request):
        time.sleep(0.06)
        return answer()

    built = court(policy("late")(late), after, limits=BRIEF)
    assert (await built.judge()).error.code == "POLICY_FAILED"
    assert built.decisions() == [("late", "error"), ("after", "not-evaluated")]
    assert entered == []
