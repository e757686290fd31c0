"""The truth table's rows about an enclosing cancel scope: its cancellation always goes on."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from capgate import CancelToken, Pipeline, Stage

ENDED = ("requested", "started", "cancelled")
NATIVE = {"code": "CANCELLED", "native": True, "still_running": False}

PLAIN = pytest.param(dict, id="plain")
TIMED = pytest.param(lambda: {"timeout": 60}, id="timeout")
HELD = pytest.param(lambda: {"cancel": CancelToken()}, id="token")
CALLS = pytest.mark.parametrize("options", [PLAIN, TIMED, HELD])


async def cancelled_call(rig, when=None, **options):
    """Call inside a scope that is cancelled once the handler runs; True if the call came back."""
    came_back = False
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_when, scope, when or rig.running)
            await rig.attempt(**options)
            came_back = True
    assert scope.cancelled_caught
    return came_back


async def cancel_when(scope, event):
    await event.wait()
    scope.cancel()


@CALLS
async def test_enclosing_scope_is_cancelled(rig, options):
    """An enclosing scope is cancelled: event cancelled, native; the cancellation goes on."""
    rig.job(rig.forever)
    assert not await cancelled_call(rig, **options())
    rig.saw(*ENDED, effect="unknown", **NATIVE)


@CALLS
async def test_handler_s_own_exception_goes_on(rig, options):
    """The native cancellation goes on as the very exception the handler let out."""
    seen = []

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        except BaseException as raised:
            seen.append(raised)
            raise

    async def call():
        try:
            await rig.attempt(**options())
        except BaseException as raised:
            seen.append(raised)
            raise

    rig.job(body)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_when, scope, rig.running)
            await call()
    assert seen[0] is seen[1]
    rig.saw(*ENDED, effect="unknown", **NATIVE)


@CALLS
async def test_shorter_enclosing_deadline_is_the_caller_s(rig, options):
    """An enclosing `fail_after` is shorter: event native, the caller gets its own TimeoutError."""
    rig.job(rig.forever)
    with pytest.raises(TimeoutError), anyio.fail_after(0.02):
        await rig.attempt(**options())
    rig.saw(*ENDED, effect="unknown", **NATIVE)


@CALLS
async def test_call_in_a_cancelled_scope_is_not_entered(rig, options):
    """The call starts in a cancelled scope: handler never entered, event native, re-raised."""
    rig.job(rig.done)
    came_back = False
    with anyio.CancelScope() as scope:
        scope.cancel()
        await rig.attempt(**options())
        came_back = True
    assert scope.cancelled_caught
    assert not came_back
    rig.saw("requested", "cancelled", entered=0, effect="none", **NATIVE)


async def test_unknown_capability_in_a_cancelled_scope(rig):
    """Even a request for an unknown id in a cancelled scope leaves one pair of events."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        await rig.engine.attempt("unknown", {})
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert rig.trail[0] == "requested"
    assert len(rig.trail) == 2


async def test_call_shielded_from_a_cancelled_scope_runs(rig):
    """A call made behind a shield in a cancelled scope runs normally."""
    rig.job(rig.done)
    with anyio.CancelScope() as scope:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            outcome = await rig.attempt()
    assert rig.told(outcome) == ("Completed", "done", False, "done")
    rig.saw("requested", "started", "completed", late=False)


@CALLS
async def test_native_swallowed_goes_on(rig, options):
    """The handler swallows the native cancellation and returns: it goes on, no success event."""

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "done"

    rig.job(body)
    assert not await cancelled_call(rig, **options())
    rig.saw(*ENDED, effect="done", **NATIVE)


@CALLS
async def test_native_before_the_return_goes_on(rig, options):
    """The scope is cancelled while the handler runs, which returns without an await: it goes on."""
    scopes = []

    async def body(ctx):
        scopes[0].cancel()
        return "done"

    rig.job(body)
    came_back = False
    with anyio.CancelScope() as scope:
        scopes.append(scope)
        await rig.attempt(**options())
        came_back = True
    assert not came_back
    rig.saw(*ENDED, effect="done", **NATIVE)


@CALLS
async def test_other_failure_during_native_goes_on_as_native(rig, options):
    """The handler raises something else while natively cancelled: the cancellation goes on."""

    async def body(ctx):
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("cleanup broke")

    rig.job(body)
    assert not await cancelled_call(rig, **options())
    rig.saw(*ENDED, effect="unknown", **NATIVE)


async def test_native_after_the_return_goes_on_after_the_event(make_rig):
    """The scope is cancelled after the handler returned: completed, then it goes on."""
    scopes = []

    class Cancel(Stage):
        name = "cancel"

        def run(self, invocation):
            scopes[0].cancel()

    rig = make_rig(pipeline=Pipeline.default().after("execution", Cancel()))
    rig.job(rig.done)
    with anyio.CancelScope() as scope:
        scopes.append(scope)
        await rig.attempt()
        await anyio.lowlevel.checkpoint()
        raise AssertionError("the cancellation did not go on")
    assert scope.cancelled_caught
    rig.saw("requested", "started", "completed", late=False)


@pytest.mark.parametrize("first", ["token", "deadline"])
async def test_event_keeps_the_first_cause(rig, first):
    """Token or deadline first, then native: the first's code is told, native wins the exit."""
    token = CancelToken()
    scopes = []

    async def body(ctx):
        if first == "token":
            token.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            scopes[0].cancel()

    rig.job(body)
    with anyio.CancelScope() as scope:
        scopes.append(scope)
        await rig.attempt(cancel=token, timeout=0.02)
        raise AssertionError("the call came back")
    code = "CANCELLED" if first == "token" else "TIMEOUT"
    rig.saw(*ENDED, effect="unknown", **{**NATIVE, "code": code})


async def test_native_in_a_stage_goes_on(make_rig):
    """A native cancellation in a custom stage: handler never entered, event native, it goes on."""
    waiting = anyio.Event()

    class Pause(Stage):
        name = "pause"

        async def run(self, invocation):
            waiting.set()
            await anyio.sleep_forever()

    rig = make_rig(pipeline=Pipeline.default().before("execution", Pause()))
    rig.job(rig.done)
    assert not await cancelled_call(rig, waiting)
    rig.saw("requested", "cancelled", entered=0, effect="none", **NATIVE)


async def test_native_in_the_dependencies_leaves_evidence(make_rig):
    """A native cancellation in a factory of dependencies leaves its pair of events."""
    waiting = anyio.Event()

    async def factory(invocation):
        waiting.set()
        await anyio.sleep_forever()

    rig = make_rig(deps=factory)
    rig.job(rig.done)
    assert not await cancelled_call(rig, waiting)
    rig.saw("requested", "cancelled", entered=0, effect="none", **NATIVE)


async def test_invoke_lets_the_native_cancellation_through(rig):
    """`invoke` does not turn a native cancellation into an error of its own."""
    rig.job(rig.forever)
    with anyio.move_on_after(0.02) as scope:
        await rig.engine.invoke("job", {})
    assert scope.cancelled_caught
    rig.saw(*ENDED, effect="unknown", **NATIVE)
