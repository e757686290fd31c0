"""The recorded calls, played through the real engine, end as recorded."""

import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog
from rich.console import Console

from capgate.audit import verify_chain
from capgate.stores import Store
from examples.support_desk.replay.entry import CALLS, load_entries
from examples.support_desk.replay.player import Player
from examples.support_desk.replay.rig import Rig, build_rig
from examples.support_desk.screen.boards import unreached
from examples.support_desk.screen.show import report

ROOT = Path(__file__).parents[2]
TERMINAL_EVENTS = {"denied", "approval_requested", "completed", "failed", "cancelled"}
PRIVATE = ("sample-private-key", ".internal", "no space left", "customer012@", "new@example.com")


@dataclass
class Replay:
    rig: Rig
    played: list
    trail: object
    log: str


@pytest.fixture
async def replay(tmp_path):
    """One whole replay, outside any terminal."""
    log = io.StringIO()
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(log))
    url, trail = f"sqlite:///{tmp_path / 'desk.db'}", tmp_path / "audit.jsonl"
    rig = build_rig(url)
    async with rig.engine:
        played = await Player(rig).play_all(load_entries(), _nobody)
    structlog.reset_defaults()
    async with Store(url) as store:
        await store.audit.export(trail)
    return Replay(rig, played, trail, log.getvalue())


async def _nobody(_):
    return None


async def test_every_line_ends_as_recorded(replay):
    """No outcome, code, stage, effect or output differs from the recording."""
    wrong = [(p.number, p.entry.note, p.problems) for p in replay.played if p.problems]
    assert wrong == []


async def test_every_code_a_caller_can_meet_is_met(replay):
    """Nothing is missing but what adapters alone raise."""
    assert unreached(replay.played) == set()


async def test_every_execution_has_one_terminal_event(replay):
    """SI-12: each execution in the audit ends exactly once."""
    ends = {}
    for event in replay.rig.events.events:
        kind = event.type.removeprefix("capability.")
        inline = kind == "approval_requested" and not event.data["suspended"]
        if kind in TERMINAL_EVENTS and event.execution_id and not inline:
            ends.setdefault(event.execution_id, []).append(kind)
    started = {e.execution_id for e in replay.rig.events.of_type("capability.requested")}
    assert {key: value for key, value in ends.items() if key in started and len(value) != 1} == {}
    assert started <= set(ends)


async def test_the_trail_holds_and_says_nothing_private(replay):
    """SI-10: the chain verifies, and no private text is in it."""
    text = replay.trail.read_text(encoding="utf-8")
    assert verify_chain(text.splitlines()).ok
    assert [word for word in PRIVATE if word in text] == []


async def test_what_clients_see_says_nothing_private(replay):
    """SI-9: no private text is in any public error."""
    public = json.dumps([dict(s.public) for p in replay.played for s in p.seen if s.public])
    assert [word for word in PRIVATE if word in public] == []


async def test_money_moves_as_often_as_was_promised(replay):
    """Repeats, races and lost answers moved nothing twice."""
    desk = replay.rig.desk
    shop = desk.store.tables
    assert str(shop.payment_of("ord_0002").refunded) == "10.00"
    assert str(shop.payment_of("ord_0025").refunded) == "288.00"
    assert str(shop.payment_of("ord_0038").refunded) == "90.00"
    assert list(map(str, desk.gateway.captured.values())) == ["89.50"]


async def test_the_show_is_plain_text_outside_a_terminal(replay):
    """Tables, timeline and verdicts are printed without control codes, and all is well."""
    out = io.StringIO()
    console = Console(file=out, width=100)
    trail, played = replay.trail, replay.played
    assert report(console, replay.rig, played, earlier=[], trail=trail, seconds=0.5)
    text = out.getvalue()
    assert "\x1b" not in text
    for part in ("payments.refund", "APPROVAL_CONSUMED", "resumes", "the hash chain holds"):
        assert part in text


async def test_a_wrong_expectation_is_reported(tmp_path):
    """The replay judges: a line whose expectation is wrong makes the report fail."""
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(io.StringIO()))
    first = load_entries()[1]
    wrong = first.model_copy(
        update={"expect": first.expect.model_copy(update={"status": "failed"})}
    )
    rig = build_rig(f"sqlite:///{tmp_path / 'desk.db'}")
    async with rig.engine:
        played = await Player(rig).play(1, wrong)
    structlog.reset_defaults()
    assert played.problems == ("status: expected failed, got completed (completed)",)


def run(tmp_path, calls=CALLS):
    """Run the command as `make demo` does, on a database in a folder of its own."""
    command = [sys.executable, "-m", "examples.support_desk", "--calls", str(calls)]
    command += ["--database", str(tmp_path / "kept" / "desk.db")]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(("lines", "status"), [(slice(None), 0), (slice(0, 2), 1)])
def test_the_command_tells_by_its_exit_status(tmp_path, lines, status):
    """0 when everything is as recorded, 1 when codes are missing; no control codes in a pipe."""
    recorded = tmp_path / "calls.jsonl"
    recorded.write_text("\n".join(CALLS.read_text("utf-8").splitlines()[lines]), encoding="utf-8")
    done = run(tmp_path, recorded)
    assert (done.returncode, done.stderr) == (status, "")
    assert "\x1b" not in done.stdout


def test_a_second_run_shows_the_approvals_of_the_first(tmp_path):
    """They are in the database, whatever became of the process that asked."""
    first, second = run(tmp_path), run(tmp_path)
    assert (first.returncode, second.returncode) == (0, 0)
    assert "No approvals of earlier runs" in first.stdout
    assert "Approvals of earlier runs" in second.stdout
    assert "pending" in second.stdout
    assert "asked by u_agent" in second.stdout
