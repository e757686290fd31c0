"""Many processes on one database, and processes that die in the middle of it."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from capgate.approvals import ApprovalStatus
from capgate.errors import CapabilityError

SCRIPT = Path(__file__).with_name("desk.py")
SPEC = importlib.util.spec_from_file_location("desk", SCRIPT)
DESK = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(DESK)

POINTS = [
    *(f"{step}-{side}" for step in ("create", "decide", "consume") for side in ("before", "after")),
    "capability.approval_requested-before",
    "capability.approved-before",
    "capability.started-before",
    "capability.started-appended",
    "handler",
    "capability.completed-before",
    "capability.completed-appended",
    "capability.completed-after",
]
UNASKED = {"create-before"}


def command(*args):
    """How the script is started with these arguments."""
    return [sys.executable, str(SCRIPT), *map(str, args)]


def killed(what, url, effects, point):
    """Run the script until it dies at this point."""
    died = subprocess.run(command(what, url, effects, point), timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL


def together(what, url, effects, values):
    """Run the script eight times at once; returns the number that each printed."""
    running = [
        subprocess.Popen(command(what, url, effects, json.dumps(values)), stdout=subprocess.PIPE)
        for _ in range(8)
    ]
    return [int(child.communicate(timeout=300)[0]) for child in running]


def lines(effects):
    """What the handler left behind."""
    return effects.read_text().split() if effects.exists() else []


def told_ends(ask):
    """The executions whose end is in the audit."""
    records = [json.loads(record) for (record,) in ask("SELECT record FROM capgate_audit")]
    return {each["execution_id"] for each in records if each["type"] == "capability.completed"}


async def finish(engine):
    """Do what is left to do with the one approval there may be, and tell how it stood."""
    (found,) = await engine.approvals.store.find()
    if found.status is ApprovalStatus.PENDING:
        await engine.approvals.approve(found.id, by=DESK.MIA)
    if found.status is not ApprovalStatus.CONSUMED:
        assert await engine.resume(found.id) == "o1"
    with pytest.raises(CapabilityError, match="APPROVAL_CONSUMED"):
        await engine.resume(found.id)
    return found.status


@pytest.mark.parametrize("point", POINTS)
async def test_a_process_that_dies_loses_nothing_and_nothing_runs_twice(url, ask, tmp_path, point):
    """SI-5: whenever it is killed, what was stored stays, and the handler runs at most once."""
    effects = tmp_path / "effects"
    killed("live", url, effects, point)
    before = lines(effects)
    engine, store = DESK.desk(url, effects)
    async with engine:
        assert (await store.audit.verify()).ok
        found = await store.approvals.find()
        assert len(found) == (point not in UNASKED)
        # Between the yes that is spent and the word of the end, nobody can tell what has happened.
        unknown = {each.consumed_by for each in found if each.consumed_by} - told_ends(ask)
        assert {each.execution_id for each in await store.unfinished()} == unknown
        if not found:
            return
        status = await finish(engine)
        assert (await store.audit.verify()).ok
    # Consumed: it may have run or not, and nobody runs it again. Otherwise it ran now.
    assert lines(effects) == (before if status is ApprovalStatus.CONSUMED else ["o1"])


HELD = [
    *(f"{step}-{side}" for step in ("begin", "start", "complete") for side in ("before", "after")),
    "capability.requested-before",
    "capability.started-appended",
    "handler",
    "capability.completed-before",
]
OVER = {"complete-after"}
NOT_ENTERED = {
    "begin-after",
    "start-before",
    "capability.requested-before",
    "capability.started-appended",
}


@pytest.mark.parametrize("point", HELD)
async def test_a_process_that_dies_with_a_key_runs_nothing_twice(url, tmp_path, point):
    """An effect is unknown exactly from the start to the end; a repeat never runs on its own."""
    effects = tmp_path / "effects"
    killed("hold", url, effects, point)
    before = lines(effects)
    engine, store = DESK.desk(url, effects)
    async with engine:
        assert (await store.audit.verify()).ok
        claimed = point != "begin-before"
        unknown = claimed and point not in OVER | NOT_ENTERED
        assert len(await store.unfinished()) == unknown
        order = {"order": "o1"}
        again = await engine.attempt("book", order, actor=DESK.DANA, idempotency_key="k1")
        for each in [*await store.unfinished(), *await store.unfinished(entered=False)]:
            assert again.error.code == "IDEMPOTENCY_CONFLICT"
            await store.settle(each.execution_id, "done" if before else "none", by=DESK.MIA)
        again = await engine.attempt("book", order, actor=DESK.DANA, idempotency_key="k1")
        assert (again.status, again.effect) == (
            "failed" if unknown and before else "completed",
            "done",
        )
        assert (await store.audit.verify()).ok
    assert lines(effects) == ["o1"]


async def test_processes_race_for_approvals_and_each_runs_once(url, tmp_path):
    """SI-5: 8 processes resume the same 200 approvals; every handler runs exactly once."""
    effects = tmp_path / "effects"
    engine, _ = DESK.desk(url, effects)
    async with engine:
        ids = []
        for number in range(200):
            asked = await engine.attempt("pay", {"order": f"o{number}"}, actor=DESK.DANA)
            await engine.approvals.approve(asked.approval.id, by=DESK.MIA)
            ids.append(asked.approval.id)
    ran = together("race", url, effects, ids)
    assert sum(ran) == len(ids)
    assert sorted(lines(effects)) == sorted(f"o{number}" for number in range(200))
    _, store = DESK.desk(url, effects)
    assert (await store.audit.verify()).ok
    await store.aclose()


async def test_processes_race_for_idempotency_keys_and_each_runs_once(url, tmp_path):
    """8 processes make the same 200 calls; every handler runs exactly once."""
    effects = tmp_path / "effects"
    keys = [f"k{number}" for number in range(200)]
    answered = together("repeat", url, effects, keys)
    assert sorted(lines(effects)) == sorted(keys)
    assert len(keys) <= sum(answered) <= 8 * len(keys)
