"""The truth table's rows about a token that fires before the handler, or between two attempts."""

from __future__ import annotations

from typing import Annotated

import anyio
import pytest
from pydantic import AfterValidator

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    CancelToken,
    DomainError,
    Pipeline,
    Retry,
    Stage,
    allow,
    policy,
)

CANCELLED = ("Cancelled", "CANCELLED", "cancellation", False)
BEFORE = {"code": "CANCELLED", "effect": "none", "native": False, "still_running": False}


@pytest.fixture
def token():
    """A token; no call may stay subscribed to it."""
    token = CancelToken()
    yield token
    assert token._listeners == {}


class Transient(DomainError):
    """Worth another try."""

    retryable = True


async def test_token_fired_before_the_call(rig, token):
    """The token fired before the call started: CANCELLED, handler never entered."""
    token.cancel()
    rig.job(rig.done)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "none")
    rig.saw("requested", "cancelled", entered=0, attempts=0, **BEFORE)


async def test_token_fired_during_validation(rig, token):
    """The token fires during validation: CANCELLED, handler never entered."""

    def fire(value):
        token.cancel()
        return value

    async def job(n: Annotated[int, AfterValidator(fire)]) -> int:
        """Count."""
        rig.entered += 1
        return n

    rig.engine.capability("count", access="public", side_effect="write")(job)
    outcome = await rig.engine.attempt("count", {"n": 1}, cancel=token)
    assert rig.told(outcome) == (*CANCELLED, "none")
    rig.saw("requested", "cancelled", entered=0, **BEFORE)


@pytest.mark.parametrize("phase", ["discovery", "invocation", "execution"])
async def test_token_fired_during_an_async_policy(make_rig, token, phase):
    """The token fires while a policy is awaited: CANCELLED, handler never entered."""

    @policy("slow", phases={phase})
    async def slow(request):
        token.cancel()
        await anyio.sleep_forever()

    rig = make_rig(policies=[slow])
    rig.job(rig.done)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "none")
    rig.saw("requested", "cancelled", entered=0, **BEFORE)


@pytest.mark.parametrize("phase", ["discovery", "invocation", "execution"])
async def test_token_fired_during_a_synchronous_policy(make_rig, token, phase):
    """The token fires in a synchronous policy that allows: CANCELLED, handler never entered."""

    @policy("quick", phases={phase})
    def quick(request):
        token.cancel()
        return allow()

    rig = make_rig(policies=[quick])
    rig.job(rig.done)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "none")
    rig.saw("requested", "cancelled", entered=0, **BEFORE)


async def test_token_fired_during_an_access_rule(rig, token):
    """The token fires while an access rule is awaited: CANCELLED, handler never entered."""

    async def rule(request):
        token.cancel()
        await anyio.sleep_forever()

    rig.job(rig.done, access=rule)
    outcome = await rig.attempt(cancel=token, actor=Actor("usr_1"))
    assert rig.told(outcome) == (*CANCELLED, "none")
    rig.saw("requested", "cancelled", entered=0, **BEFORE)


async def test_token_fired_during_the_authenticator(make_rig, token):
    """The token fires while the authenticator is awaited: CANCELLED, handler never entered."""

    async def authenticate(credentials):
        token.cancel()
        await anyio.sleep_forever()

    rig = make_rig(authenticate=authenticate)
    rig.job(rig.done)
    assert rig.told(await rig.attempt(cancel=token, credentials="card")) == (*CANCELLED, "none")
    rig.saw("requested", "cancelled", entered=0, **BEFORE)


async def test_token_fired_during_a_custom_stage(make_rig, token):
    """The token fires while a custom stage is awaited: CANCELLED, handler never entered."""

    class Pause(Stage):
        name = "pause"

        async def run(self, invocation):
            token.cancel()
            await anyio.sleep_forever()

    rig = make_rig(pipeline=Pipeline.default().before("execution", Pause()))
    rig.job(rig.done)
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "none")
    rig.saw("requested", "cancelled", entered=0, **BEFORE)


async def test_token_fired_during_the_approval_wait(make_rig, token):
    """The token fires while an inline approver is asked: CANCELLED, handler never entered.

    The request was stored before, so it is told.
    """

    async def ask(record):
        token.cancel()
        await anyio.sleep_forever()

    rig = make_rig(approvals=ApprovalConfig(handler=ask))
    rig.job(rig.done, access="authenticated", approval=ApprovalRule())
    outcome = await rig.attempt(cancel=token, actor=Actor("usr_1"))
    assert rig.told(outcome) == (*CANCELLED, "none")
    rig.saw("requested", "approval_requested", "cancelled", entered=0, **BEFORE)


async def test_token_fired_while_queued_for_a_place(rig, token):
    """The token fires while the call waits for a place: CANCELLED, handler never entered."""
    go_on = anyio.Event()

    async def body(ctx):
        await go_on.wait()
        return "done"

    rig.job(body, max_concurrency=1)
    async with anyio.create_task_group() as group:
        group.start_soon(rig.attempt)
        await rig.running.wait()
        group.start_soon(lambda: _fire_when_blocked(token))
        outcome = await rig.attempt(cancel=token)
        assert rig.told(outcome) == (*CANCELLED, "none")
        go_on.set()
    assert rig.trail == ["requested", "started", "requested", "cancelled", "completed"]
    assert rig.entered == 1


async def _fire_when_blocked(token):
    await anyio.wait_all_tasks_blocked()
    token.cancel()


async def test_token_fired_during_back_off(make_rig, token):
    """The token fires in back-off: CANCELLED, not entered again, effect unknown."""
    rig = make_rig(jitter=lambda: 1.0)

    async def body(ctx):
        raise Transient

    rig.job(body, idempotent=True, retry=Retry(attempts=3, backoff=10))
    async with anyio.create_task_group() as group:
        group.start_soon(_fire_when_blocked, token)
        outcome = await rig.attempt(cancel=token)
    assert rig.told(outcome) == (*CANCELLED, "unknown")
    rig.saw("requested", "started", "cancelled", **{**BEFORE, "effect": "unknown"})


async def test_token_fired_during_back_off_after_a_timeout(make_rig, token):
    """An attempt ran into its own deadline, the token fires in back-off: CANCELLED."""
    rig = make_rig(jitter=lambda: 1.0)
    rig.job(rig.forever, idempotent=True, timeout=0.02, retry=Retry(attempts=3, backoff=10))

    async def fire_later():
        await anyio.sleep(0.05)
        token.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(fire_later)
        outcome = await rig.attempt(cancel=token)
    assert rig.told(outcome) == (*CANCELLED, "unknown")
    rig.saw("requested", "started", "cancelled", **{**BEFORE, "effect": "unknown"})


async def test_token_fired_during_output_validation_changes_nothing(make_rig, token):
    """The token fires after the handler returned: the outcome is Completed."""

    class Fire(Stage):
        name = "fire"

        def run(self, invocation):
            token.cancel()

    rig = make_rig(pipeline=Pipeline.default().after("execution", Fire()))
    rig.job(rig.done)
    outcome = await rig.attempt(cancel=token)
    assert rig.told(outcome) == ("Completed", "done", False, "done")
    rig.saw("requested", "started", "completed", late=False)


async def test_token_fired_ends_retries(rig, token):
    """A fired token ends retries, whatever the attempt raised."""

    async def body(ctx):
        token.cancel()
        raise Transient

    rig.job(body, idempotent=True, retry=Retry(attempts=3))
    assert rig.told(await rig.attempt(cancel=token)) == (*CANCELLED, "unknown")
    rig.saw("requested", "started", "cancelled", **{**BEFORE, "effect": "unknown"})
