"""Bounds and evidence of the discovery walk: concurrency, time, broken policies, digest."""

from __future__ import annotations

import gc

import anyio
import pytest
import trio.testing

from capgate import (
    Actor,
    AuditConfig,
    CapabilityError,
    ConfigurationError,
    Engine,
    Limits,
    allow,
    hide,
    policy,
    public_error,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
VIRTUAL = pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})]
)


def engine_of(count, judge, **settings):
    """Build an engine with `count` capabilities and one discovery policy."""
    engine = Engine("test", policies=[policy("rule", phases={"discovery"})(judge)], **settings)
    for n in range(count):

        async def cap() -> None:
            """Do nothing."""

        engine.capability(f"cap{n:03}")(cap)
    return engine


@pytest.mark.parametrize("width", [1, 3, 16])
async def test_so_many_capabilities_are_judged_at_once(width):
    """At most `policy_concurrency` are judged at once, and the list keeps its order."""
    now, most = [0], [0]

    async def judge(request):
        now[0] += 1
        most[0] = max(most[0], now[0])
        for _ in range(int(request.capability.id[3:]) % 4 + 1):
            await anyio.lowlevel.checkpoint()
        now[0] -= 1
        return allow()

    engine = engine_of(40, judge, limits=Limits(policy_concurrency=width))
    found = await engine.discover("direct", actor=DANA)
    assert [each.id for each in found] == [f"cap{n:03}" for n in range(40)]
    assert most == [width]


async def test_sixteen_is_the_default_width():
    """Without a limit of its own an engine judges 16 capabilities at once."""
    waiting, gate = [], anyio.Event()

    async def judge(request):
        waiting.append(request.capability.id)
        if len(waiting) == 16:
            await anyio.lowlevel.checkpoint()
            gate.set()
        await gate.wait()
        return allow()

    engine = engine_of(40, judge)
    assert len(await engine.discover("direct", actor=DANA)) == 40
    assert Limits().policy_concurrency == 16


@pytest.mark.parametrize("junk", [0, -1, 1.5, float("nan"), True, None, "16"])
def test_a_width_that_is_none_is_refused(junk):
    """A concurrency that is no whole number of at least 1 is a ConfigurationError."""
    with pytest.raises(ConfigurationError):
        Limits(policy_concurrency=junk)


async def test_a_broken_policy_excludes_only_its_own_capability():
    """One failing policy drops one capability, and the event says which policy broke on which."""

    async def judge(request):
        if request.capability.id == "cap001":
            raise ValueError("secret")
        return allow()

    audit = MemoryAudit()
    found = await engine_of(3, judge, audit=audit).discover("direct", actor=DANA)
    assert [each.id for each in found] == ["cap000", "cap002"]
    (event,) = audit.events
    assert event.to_dict()["data"]["errors"] == [{"capability": "cap001", "policy": "rule"}]
    assert "secret" not in repr(event.to_dict())


async def test_the_digest_tells_equal_lists():
    """The digest depends on the set of ids only, and the event's size not on the catalogue."""

    def judge(request):
        wanted = "cap001" if request.actor == DANA else "cap002"
        return hide() if request.capability.id == wanted else allow()

    audit = MemoryAudit()
    engine = engine_of(300, judge, audit=audit)
    for actor in (DANA, DANA, Actor("u_other")):
        await engine.discover("direct", actor=actor)
    digests = [event.data["digest"] for event in audit.events]
    assert digests[0] == digests[1] != digests[2]
    assert len(repr(audit.events[0].to_dict())) < 1000


@VIRTUAL
async def test_a_walk_over_its_time_is_a_timeout():
    """A walk that takes too long is TIMEOUT at stage discovery: never a short list, no event."""

    async def judge(request):
        await anyio.sleep(4)
        return allow()

    audit = MemoryAudit()
    limits = Limits(discovery_timeout=30, policy_concurrency=2)
    engine = engine_of(40, judge, audit=audit, limits=limits)
    with pytest.raises(CapabilityError) as caught:
        await engine.discover("direct", actor=DANA)
    error = caught.value
    assert (error.code, error.stage, error.retryable) == ("TIMEOUT", "discovery", True)
    assert public_error(error)["code"] == "TIMEOUT"
    assert audit.events == []
    gc.collect()


@VIRTUAL
async def test_waiting_in_line_is_no_fault_of_a_policy():
    """A policy's time runs from when it is asked, not while other capabilities are judged."""

    async def judge(request):
        await anyio.sleep(2)
        return allow()

    limits = Limits(policy_timeout=5, discovery_timeout=100, policy_concurrency=1)
    audit = MemoryAudit()
    engine = engine_of(6, judge, limits=limits, audit=AuditConfig([audit], verbose=True))
    assert len(await engine.discover("direct", actor=DANA)) == 6
    assert audit.events[0].to_dict()["data"]["errors"] == []


@VIRTUAL
async def test_a_hanging_policy_excludes_its_capability():
    """A policy that hangs on one capability drops that one after its own time."""

    async def judge(request):
        if request.capability.id == "cap001":
            await anyio.sleep_forever()
        return allow()

    began = anyio.current_time()
    found = await engine_of(3, judge).discover("direct", actor=DANA)
    assert [each.id for each in found] == ["cap000", "cap002"]
    assert anyio.current_time() - began < 30


async def test_a_cancelled_walk_leaves_nothing_behind():
    """A walk cancelled from outside ends at once, with no coroutine left unawaited."""

    async def judge(request):
        await anyio.sleep_forever()

    engine = engine_of(40, judge, limits=Limits(policy_concurrency=2))
    with anyio.move_on_after(0.001) as scope:
        await engine.discover("direct", actor=DANA)
    assert scope.cancelled_caught
    gc.collect()


async def test_a_large_catalogue_is_listed():
    """300 capabilities with a sync policy are listed in one go."""
    engine = engine_of(300, lambda request: allow())
    assert len(await engine.discover("direct", actor=DANA)) == 300
