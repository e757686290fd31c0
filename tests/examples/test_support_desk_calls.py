"""The recorded calls cover what they promise to cover, before any of them is played."""

from collections import Counter

import pytest

from capgate import ErrorCode
from examples.support_desk.desk.directory import Directory
from examples.support_desk.replay.entry import EXECUTIONS, load_entries
from examples.support_desk.replay.faults import FAULTS

# Raised only where a protocol is translated; no call to the engine itself can end in it.
ADAPTERS_ONLY = {ErrorCode.ADAPTER_ERROR}


@pytest.fixture(scope="module")
def entries():
    return load_entries()


def test_there_are_at_least_sixty_calls(entries):
    """Advancing the clock is no call."""
    assert sum(entry.op != "advance" for entry in entries) >= 60


def test_every_outcome_is_expected_somewhere(entries):
    """The four outcomes of a call all occur."""
    statuses = {entry.expect.status for entry in entries if entry.op in EXECUTIONS}
    assert {"completed", "approval-required", "failed", "cancelled"} <= statuses


def test_every_code_but_the_adapters_own_is_expected_somewhere(entries):
    """Each error code that a caller of the engine can meet is the expectation of a line."""
    codes = {entry.expect.code for entry in entries} | {
        ErrorCode(name)
        for entry in entries
        for name in entry.expect.tally or {}
        if name in ErrorCode.__members__
    }
    assert set(ErrorCode) - codes == ADAPTERS_ONLY


def test_several_actors_call_on_several_surfaces(entries):
    """People, a machine, an automation and nobody; six surfaces."""
    actors = {entry.actor for entry in entries if entry.op in EXECUTIONS}
    surfaces = Counter(entry.surface for entry in entries if entry.op == "call")
    assert len(actors) >= 6
    assert {"direct", "tools", "mcp", "http", "cli", "workflow"} <= set(surfaces)


def test_every_line_says_what_it_shows_and_names_only_what_exists(entries):
    """Actors, faults and approvals are known before they are used."""
    known = {actor.id for actor in Directory.load().actors()}
    labels = {"apr_of_nobody"}
    for entry in entries:
        assert entry.note
        assert entry.actor in known | {None}
        assert set(entry.faults) <= set(FAULTS)
        assert entry.approval in labels | {None}
        labels.add(entry.label or "apr_of_nobody")


def test_every_fault_is_used(entries):
    """No seam is there for nothing."""
    assert {fault for entry in entries for fault in entry.faults} == set(FAULTS)


def test_every_line_but_the_clock_expects_something(entries):
    """A line without an expectation would prove nothing."""
    for entry in entries:
        assert entry.op == "advance" or entry.expect.model_dump(exclude_defaults=True), entry.note
