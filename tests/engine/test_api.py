"""`invoke`, `attempt` and the outcomes: the public way to call, and what comes back."""

from __future__ import annotations

import copy
import pickle
import threading
from datetime import timedelta

import anyio
import pytest
from pydantic import BaseModel

from capgate import (
    Actor,
    ApprovalRequired,
    ApprovalRule,
    Cancelled,
    CancelToken,
    CapabilityError,
    Completed,
    Context,
    DomainError,
    Effect,
    Engine,
    Failed,
    Limits,
    Unauthenticated,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana", attributes={"org": ["acme"]})


class SoldOutError(DomainError):
    message = "Sold out."


class Order(BaseModel):
    id: str
    amount: int = 1


def world(**settings):
    """Build an engine with one capability for each outcome."""
    engine = Engine("test", on_internal_error=lambda _: None, **settings)

    @engine.capability("done")
    async def done(n: int = 1) -> int:
        """Give back."""
        return n

    @engine.capability("gated", approval=ApprovalRule())
    async def gated() -> int:
        """Give one."""
        return 1

    @engine.capability("bad")
    async def bad() -> int:
        """Fail."""
        raise SoldOutError

    return engine


async def outcomes():
    """Return one outcome of each kind."""
    engine, token = world(), CancelToken()
    token.cancel("because")
    return [
        await engine.attempt("done", {"n": 7}, actor=DANA),
        await engine.attempt("gated", actor=DANA),
        await engine.attempt("bad", actor=DANA),
        await engine.attempt("done", actor=DANA, cancel=token),
    ]


async def test_the_four_outcomes():
    """A call ends as one of four outcomes, each with its status, execution id and effect."""
    found = await outcomes()
    assert [type(each) for each in found] == [Completed, ApprovalRequired, Failed, Cancelled]
    statuses = ["completed", "approval-required", "failed", "cancelled"]
    assert [each.status for each in found] == statuses
    assert [each.effect for each in found] == [
        Effect.DONE,
        Effect.NONE,
        Effect.UNKNOWN,
        Effect.NONE,
    ]
    assert all(each.execution_id.startswith("exe_") for each in found)
    assert len({each.execution_id for each in found}) == 4
    done = found[0]
    assert (done.output, done.attempts, done.late, done.replayed) == (7, 1, False, False)


async def test_match_works_on_all_four():
    """Outcomes can be matched by keyword and by position."""
    seen = []
    for outcome in await outcomes():
        match outcome:
            case Completed(output=output):
                seen.append(output)
            case ApprovalRequired(approval=record):
                seen.append(record.status)
            case Failed(error=error) | Cancelled(error=error):
                seen.append(error.code)
    assert seen == [7, "pending", "EXECUTION_FAILED", "CANCELLED"]
    match (await outcomes())[2]:
        case Failed(execution_id, error):
            assert error.execution_id == execution_id


async def test_unwrap_gives_the_output_or_raises():
    """`unwrap()` gives the output, raises the very error, or APPROVAL_REQUIRED."""
    done, gated, bad, stopped = await outcomes()
    assert done.unwrap() == 7
    for outcome, code in ((gated, "APPROVAL_REQUIRED"), (bad, "EXECUTION_FAILED")):
        with pytest.raises(CapabilityError) as caught:
            outcome.unwrap()
        assert caught.value.code == code
        assert caught.value.execution_id == outcome.execution_id
    with pytest.raises(CapabilityError) as caught:
        stopped.unwrap()
    assert caught.value is stopped.error


async def test_invoke_raises_what_attempt_holds():
    """`invoke` returns the output or raises the failure that `attempt` would hold."""
    engine = world()
    assert await engine.invoke("done", {"n": 3}, actor=DANA) == 3
    for name, code in (("bad", "EXECUTION_FAILED"), ("gated", "APPROVAL_REQUIRED")):
        with pytest.raises(CapabilityError) as caught:
            await engine.invoke(name, actor=DANA)
        assert caught.value.code == code


async def test_outcomes_are_frozen_and_compare():
    """Outcomes cannot be changed, and equal ones are equal."""
    for outcome in await outcomes():
        for name in ("execution_id", "effect", "status", "extra"):
            with pytest.raises(AttributeError):
                setattr(outcome, name, "x")
    assert Completed("exe_1", 7) == Completed("exe_1", 7) != Completed("exe_1", 8)


async def test_errors_of_outcomes_pickle_and_copy():
    """The error of an outcome survives pickle and copy with every field, cause excepted."""
    bad = (await outcomes())[2].error
    for again in (pickle.loads(pickle.dumps(bad)), copy.copy(bad), copy.deepcopy(bad)):
        for name in ("code", "stage", "retryable", "exposed", "execution_id", "effect", "reason"):
            assert getattr(again, name) == getattr(bad, name)
        assert str(again) == str(bad) == "EXECUTION_FAILED: Sold out."


async def test_outcomes_pickle_and_copy():
    """Every outcome survives pickle and copy with its fields, so that it crosses process pools."""
    for outcome in await outcomes():
        copies = (pickle.loads(pickle.dumps(outcome)), copy.copy(outcome), copy.deepcopy(outcome))
        for again in copies:
            assert type(again) is type(outcome)
            assert (again.execution_id, again.effect) == (outcome.execution_id, outcome.effect)
            assert getattr(again, "output", None) == getattr(outcome, "output", None)


async def test_an_input_may_be_a_mapping_or_the_model():
    """A capability over one model takes the model, a mapping, or what the model's defaults fill."""
    engine = world()

    @engine.capability("order")
    async def order(order: Order) -> Order:
        """Give back."""
        return order

    given = Order(id="o", amount=2)
    assert await engine.invoke(order, given, actor=DANA) == given
    assert await engine.invoke(order, {"id": "o", "amount": 2}, actor=DANA) == given
    assert (await engine.invoke(order, given, actor=DANA)) is not given


async def test_no_input_is_an_empty_object():
    """Leaving the input out is the empty object, for every kind of call."""
    engine = world()
    assert await engine.invoke("done", actor=DANA) == 1
    assert await engine.invoke("done", None, actor=DANA) == 1
    assert await engine.invoke("done", {}, actor=DANA) == 1


async def test_ids_are_the_engines_or_the_applications():
    """Executions are `exe_…`, approvals `apr_…`; `new_id` makes them, and may break."""
    made = iter(["one", "two"])

    def new_id():
        return next(made)

    engine = world(new_id=new_id)
    assert (await engine.attempt("done", actor=DANA)).execution_id == "exe_one"
    assert (await engine.attempt("done", actor=DANA)).execution_id == "exe_two"
    third = (await engine.attempt("done", actor=DANA)).execution_id
    assert third.startswith("exe_")
    assert len(third) > 10
    assert (await engine.attempt("gated", actor=DANA)).approval.id.startswith("apr_")


async def test_a_correlation_id_is_the_callers_or_the_executions():
    """`correlation_id=` is kept; without one the execution's own id ties its events."""
    audit = MemoryAudit()
    engine = world(audit=audit)
    await engine.invoke("done", actor=DANA, correlation_id="cor_1")
    outcome = await engine.attempt("done", actor=DANA)
    found = [event.correlation_id for event in audit.of_type("capability.completed")]
    assert found == ["cor_1", outcome.execution_id]


@pytest.mark.parametrize("timeout", [30, 30.0, timedelta(seconds=30)])
async def test_a_timeout_is_seconds_or_a_timedelta(timeout):
    """`timeout=` takes seconds or a timedelta."""
    assert await world().invoke("done", actor=DANA, timeout=timeout) == 1


async def test_the_callers_objects_are_captured():
    """Changing the input or the actor's attributes afterwards changes nothing (SI-3, SI-6)."""
    engine = world()
    facts = {"org": ["acme"]}
    actor = Actor("u_dana", attributes=facts)
    payload = {"tags": ["a"]}
    seen = []

    @engine.capability("keep")
    async def keep(tags: list[str], ctx: Context) -> list[str]:
        """Look at what the caller can no longer change."""
        payload["tags"].append("evil")
        facts["org"].append("evil")
        seen.append(list(ctx.actor.attributes["org"]))
        return tags

    assert await engine.invoke("keep", payload, actor=actor) == ["a"]
    assert seen == [["acme"]]


async def test_authenticate_is_public():
    """`engine.authenticate` gives the actor, or raises UNAUTHENTICATED or INTERNAL_ERROR."""

    async def check(credentials):
        if credentials == "broken":
            raise OSError("secret")
        if credentials == "refused":
            raise Unauthenticated("secret")
        return DANA if credentials == "good" else None

    engine = Engine("test", authenticate=check, on_internal_error=lambda _: None)
    assert await engine.authenticate("good") == DANA
    for credentials, code in (
        ("bad", "UNAUTHENTICATED"),
        ("refused", "UNAUTHENTICATED"),
        (None, "UNAUTHENTICATED"),
        ("broken", "INTERNAL_ERROR"),
    ):
        with pytest.raises(CapabilityError) as caught:
            await engine.authenticate(credentials)
        assert (caught.value.code, caught.value.stage) == (code, "authentication")
    with pytest.raises(TypeError):
        await Engine("plain").authenticate("good")


def test_one_engine_serves_several_event_loops():
    """An engine is bound to no loop: one after the other and at once, on both back ends."""
    engine = Engine("test", limits=Limits(max_concurrency=1), audit=[audit := MemoryAudit()])

    @engine.capability("cap", max_concurrency=1)
    def cap() -> int:
        """Give one."""
        return 1

    async def calls():
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(lambda: engine.invoke(cap, actor=DANA))

    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(calls, backend=backend)
    threads = [threading.Thread(target=anyio.run, args=(calls,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(audit.of_type("capability.completed")) == 60
