"""How many at once, how many may wait, and who keeps a place."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from capgate import Actor, ApprovalRule, CancelToken, Limits, public_error

DANA = Actor("u_dana")


class Doors:
    """A handler that counts who is inside and waits for the test to let go."""

    def __init__(self) -> None:
        self.inside = self.most = self.entered = 0
        self.go = anyio.Event()

    async def act(self) -> int:
        self.inside += 1
        self.entered += 1
        self.most = max(self.most, self.inside)
        try:
            await self.go.wait()
        finally:
            self.inside -= 1
        return self.entered


def handler_of(doors):
    async def act() -> int:
        return await doors.act()

    return act


async def settle() -> None:
    """Let every task run until it waits for something."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


@pytest.fixture
def crowd(world):
    """An engine, its doors, and `call`s under way in a task group."""

    def build(*, own=None, engine=None, queue=1000, ids=("act",), **fields):
        doors = Doors()
        limits = Limits(max_concurrency=engine, max_queue=queue)
        built = world(limits=limits)
        for id_ in ids:
            built.add(id_, handler=handler_of(doors), max_concurrency=own, **fields)
        return built, doors

    return build


@pytest.mark.parametrize("where", ["own", "engine"])
async def test_no_more_than_the_limit_run_at_once(crowd, where):
    """The rest wait and are served; nobody is lost."""
    built, doors = crowd(**{where: 3})
    done = []

    async def one():
        done.append(await built.call())

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(one)
        await settle()
        assert doors.inside == 3
        doors.go.set()
    assert doors.most == 3
    assert [each.status for each in done] == ["completed"] * 10


async def test_the_engines_limit_is_shared_by_its_capabilities(crowd):
    """One limiter for the whole engine."""
    built, doors = crowd(engine=2, ids=("a", "b"))
    async with anyio.create_task_group() as group:
        for id_ in "aabb":
            group.start_soon(lambda id_=id_: built.call(id=id_))
        await settle()
        assert doors.inside == 2
        doors.go.set()


async def test_a_capabilitys_limit_is_its_own(crowd):
    """One queue per limiter: a crowd at one door does not block another."""
    built, doors = crowd(own=1, ids=("a", "b"))
    async with anyio.create_task_group() as group:
        for id_ in "aabb":
            group.start_soon(lambda id_=id_: built.call(id=id_))
        await settle()
        assert doors.inside == 2
        doors.go.set()


@pytest.mark.parametrize("where", ["own", "engine"])
@pytest.mark.parametrize("queue", [0, 2])
async def test_beyond_the_queue_a_call_is_refused(crowd, where, queue):
    """RATE_LIMITED at once, retryable and exposed; the handler is not entered."""
    built, doors = crowd(**{where: 1}, queue=queue)
    async with anyio.create_task_group() as group:
        for _ in range(1 + queue):
            group.start_soon(built.call)
        await settle()
        outcome = await built.call()
        doors.go.set()
    error = outcome.error
    assert (error.code, error.stage, error.retryable) == ("RATE_LIMITED", "policy", True)
    assert outcome.effect == "none"
    assert public_error(error)["code"] == "RATE_LIMITED"
    assert doors.entered == 1 + queue


async def test_a_refused_call_is_denied_in_the_audit(crowd):
    """With the reason `rate-limited`."""
    built, doors = crowd(own=1, queue=0)
    async with anyio.create_task_group() as group:
        group.start_soon(built.call)
        await settle()
        await built.call()
        (event,) = built.audit.of_type("capability.denied")
        doors.go.set()
    assert event.data["reason"] == "rate-limited"


@pytest.mark.parametrize("where", ["own", "engine"])
async def test_callers_wait_inside_their_deadline(crowd, where):
    """TIMEOUT while waiting: nothing has run, and the place in the queue is free again."""
    built, doors = crowd(**{where: 1}, queue=1)
    async with anyio.create_task_group() as group:
        group.start_soon(built.call)
        await settle()
        for _ in range(3):
            outcome = await built.call(timeout=0.01)
            assert (outcome.error.code, outcome.effect) == ("TIMEOUT", "none")
        doors.go.set()
    assert (await built.call()).status == "completed"


async def test_the_capabilitys_own_timeout_bounds_the_wait_too(crowd):
    """SI-12: without a deadline of the call nobody waits for ever."""
    built, doors = crowd(own=1, timeout=0.03)
    built.add("slow", handler=handler_of(doors))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: built.call(id="slow"))
        for _ in range(3):
            group.start_soon(built.call)
        await settle()
        outcome = await built.call()
        doors.go.set()
    assert outcome.status == "cancelled"


async def test_a_token_ends_the_wait(crowd):
    """CANCELLED, and whoever comes next gets the place."""
    token = CancelToken()
    built, doors = crowd(own=1)
    outcomes = []

    async def wait():
        outcomes.append(await built.call(cancel=token))

    async with anyio.create_task_group() as group:
        group.start_soon(built.call)
        await settle()
        group.start_soon(wait)
        await settle()
        token.cancel()
        await settle()
        assert outcomes[0].error.code == "CANCELLED"
        doors.go.set()
    assert doors.entered == 1


async def test_a_native_cancellation_ends_the_wait(crowd):
    """The queue does not remember who left it."""
    built, doors = crowd(own=1, queue=1)
    async with anyio.create_task_group() as group:
        group.start_soon(built.call)
        await settle()
        for _ in range(3):
            with anyio.move_on_after(0.005):
                await built.call()
        doors.go.set()
    assert (await built.call()).status == "completed"


@pytest.mark.parametrize("ending", ["return", "raise", "timeout", "token"])
async def test_a_place_is_given_back_however_the_call_ends(world, ending):
    """Ten calls through one place."""
    token = CancelToken()

    async def act() -> None:
        if ending == "raise":
            raise RuntimeError
        if ending == "token":
            token.cancel()
        if ending != "return":
            await anyio.sleep_forever()

    built = world(limits=Limits(max_concurrency=1, max_queue=0))
    built.add(handler=act, max_concurrency=1)
    for _ in range(5):
        token = CancelToken()
        outcome = await built.call(timeout=0.01 if ending == "timeout" else 5, cancel=token)
        assert getattr(getattr(outcome, "error", None), "code", None) != "RATE_LIMITED"


async def test_a_refusal_by_the_inner_limit_gives_the_outer_place_back(world):
    """The engine's place is not lost to a capability whose own queue is full."""
    doors = Doors()
    built = world(limits=Limits(max_concurrency=2, max_queue=0))
    built.add(handler=handler_of(doors), max_concurrency=1).add("other")
    async with anyio.create_task_group() as group:
        group.start_soon(built.call)
        await settle()
        for _ in range(3):
            assert (await built.call()).error.code == "RATE_LIMITED"
        assert (await built.call(id="other")).status == "completed"
        doors.go.set()


async def test_an_approval_is_not_spent_while_waiting(crowd):
    """Limits come before consumption: who is refused may come again."""
    built, doors = crowd(own=1, queue=0, approval=ApprovalRule())
    records = [await built.granted() for _ in range(2)]
    async with anyio.create_task_group() as group:
        group.start_soon(built.resume, records[0])
        await settle()
        assert (await built.resume(records[1])).error.code == "RATE_LIMITED"
        doors.go.set()
    assert await built.status(records[1]) == "approved"
    assert (await built.resume(records[1])).status == "completed"
