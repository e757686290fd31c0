"""Resume checks in one fixed order: of two things that are wrong, the earlier one is told."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    Engine,
    FailureStage,
    Pipeline,
    Stage,
    allow,
    deny,
    policy,
)

DANA, EVE, MIA = Actor("u_dana"), Actor("u_eve"), Actor("u_mia")


class Custom(Stage):
    """A stage of the application, before execution."""

    name = "custom"
    failure_stage = FailureStage.AUTHORIZATION

    def __init__(self, scene) -> None:
        self.scene = scene

    def run(self, invocation):
        if "custom" in self.scene.wrong:
            raise RuntimeError("custom")


class Scene:
    """An approved request, and a switch for each thing that can be wrong when it is resumed."""

    def __init__(self, clock, store, audit) -> None:
        self.clock, self.store, self.audit = clock, store, audit
        self.wrong, self.ran, self.guards = set(), [], {}

    def engine(self):
        late = policy("late", phases={"execution"})(
            lambda r: deny() if "policy" in self.wrong else allow()
        )
        engine = Engine(
            "test",
            clock=self.clock,
            audit=self.audit,
            policies=[late],
            authorize=lambda r: "authorizer" not in self.wrong,
            approvals=ApprovalConfig(self.store, load_actor=self.load),
            pipeline=Pipeline.default().before("execution", Custom(self)),
            on_internal_error=lambda error: None,
        )
        expose = set() if "exposure" in self.wrong else {"direct"}

        @engine.capability(
            "act",
            expose=expose,
            approval=ApprovalRule(expires_in=60),
            access=lambda r: "access" not in self.wrong,
        )
        async def act(n: int = 1) -> int:
            """Act."""
            self.ran.append(n)
            return n

        return engine

    async def load(self, actor):
        return None if "actor" in self.wrong else actor

    async def granted(self, status):
        engine = self.engine()
        record = (await engine.attempt("act", actor=DANA)).approval
        if status == "approved":
            await engine.approvals.approve(record.id, by=MIA)
        return record

    def spoil(self, *what):
        self.wrong = set(what)
        if "guard" in what:
            self.guards = {"actor": EVE}
        if "expiry" in what:
            self.clock.advance(60)
        if "integrity" in what:
            self.store.alter = lambda record: replace(record, input={"n": 666})
        if "consumption" in what:
            self.store.fails.add("consume")


# In the order of the rule, with the code that each of them gives alone.
CHECKS = {
    "guard": "APPROVAL_NOT_FOUND",
    "exposure": "CAPABILITY_NOT_FOUND",
    "status": "APPROVAL_REJECTED",
    "expiry": "APPROVAL_EXPIRED",
    "integrity": "APPROVAL_INPUT_MISMATCH",
    "actor": "UNAUTHENTICATED",
    "access": "FORBIDDEN",
    "authorizer": "FORBIDDEN",
    "custom": "FORBIDDEN",
    "policy": "POLICY_DENIED",
    "consumption": "APPROVAL_UNAVAILABLE",
}
# A status that is final is told before expiry; of an open request expiry is.
PAIRS = list(pairwise(CHECKS))


@pytest.fixture
def scene(world, store):
    built = world()
    return Scene(built.clock, store, built.audit)


async def resumed(scene, *wrong):
    record = await scene.granted("approved")
    if "status" in wrong:
        scene.store.alter = lambda record: replace(record, status="rejected")
    scene.spoil(*wrong)
    engine = scene.engine()
    return await engine.attempt_resume(record.id, **scene.guards)


async def test_with_nothing_wrong_it_executes(scene):
    """The scene is sound."""
    assert (await resumed(scene)).output == 1


@pytest.mark.parametrize(("wrong", "code"), CHECKS.items(), ids=CHECKS)
async def test_each_check_alone_refuses(scene, wrong, code):
    """SI-7: nothing runs, and nothing that can be refused has been spent."""
    outcome = await resumed(scene, wrong)
    assert outcome.error.code == code
    assert scene.ran == []
    assert outcome.effect == "none"
    assert "consume" not in scene.store.calls or wrong == "consumption"


@pytest.mark.parametrize(("earlier", "later"), PAIRS, ids=lambda name: name)
async def test_of_two_neighbours_the_earlier_is_told(scene, earlier, later):
    """The order of the rule, pair by pair (reference A 119, 121)."""
    alone = (await resumed(scene, earlier)).error
    fresh = Scene(scene.clock, type(scene.store)(), scene.audit)
    both = (await resumed(fresh, earlier, later)).error
    assert (both.code, both.stage, both.exposed) == (alone.code, alone.stage, alone.exposed)
    assert fresh.ran == []


async def test_a_pending_request_past_its_expiry_is_expired(scene):
    """Reference A 121: it stayed pending, and retryable, for ever."""
    record = await scene.granted("pending")
    scene.clock.advance(60)
    error = (await scene.engine().attempt_resume(record.id)).error
    assert (error.code, error.retryable) == ("APPROVAL_EXPIRED", False)


@pytest.mark.parametrize("status", ["pending", "approved"])
@pytest.mark.parametrize(("seconds", "expired"), [(59.999999, False), (60, True), (61, True)])
async def test_expiry_is_at_the_tick(scene, status, seconds, expired):
    """`now >= expires_at`, in every store (reference A 120, 294)."""
    record = await scene.granted(status)
    scene.clock.advance(seconds)
    outcome = await scene.engine().attempt_resume(record.id)
    if expired:
        assert outcome.error.code == "APPROVAL_EXPIRED"
    elif status == "pending":
        assert (outcome.error.code, outcome.error.retryable) == ("APPROVAL_PENDING", True)
    else:
        assert outcome.status == "completed"
    assert scene.ran == ([1] if not expired and status == "approved" else [])


async def test_it_may_expire_while_the_rules_are_asked(scene):
    """SI-7: consumption checks the time again."""
    record = await scene.granted("approved")

    async def slow(actor):
        scene.clock.advance(60)
        return actor

    scene.load = slow
    assert (await scene.engine().attempt_resume(record.id)).error.code == "APPROVAL_EXPIRED"
    assert scene.ran == []


async def test_a_capability_that_is_gone_is_missing(scene, world, store):
    """CAPABILITY_NOT_FOUND with the true reason; nothing is spent (reference A 118)."""
    record = await scene.granted("approved")
    empty = world(approvals=scene.store)
    error = (await empty.resume(record)).error
    assert error.code == "CAPABILITY_NOT_FOUND"
    assert empty.last()["reason"] == "unknown"
    assert "consume" not in scene.store.calls


async def test_exposure_is_checked_again(scene):
    """SI-2: reference A 22: approved while exposed, closed since: it completed."""
    outcome = await resumed(scene, "exposure")
    assert outcome.error.code == "CAPABILITY_NOT_FOUND"
    assert scene.audit.events[-1].data["reason"] == "not-exposed"
    assert scene.ran == []
