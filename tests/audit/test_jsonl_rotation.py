"""A file that is put aside when it is full, and the chain that goes on through all of them."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import pytest

from capgate import Actor
from capgate.audit import ChainedAudit, JsonlAudit, MemoryAudit, read_jsonl, verify_chain

OPS = Actor("ops")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def fill(path, make, count, *, first=0, **options):
    """Write a chain into small files; returns it."""
    chain = ChainedAudit(JsonlAudit(path, max_bytes=1_000, **options))
    for number in range(first, first + count):
        chain(make(f"exe_{number}"))
    return chain


def names(path):
    """The executions in the whole stream, in order."""
    return [json.loads(line)["execution_id"] for line in read_jsonl(path)]


@pytest.mark.parametrize("fsync", [False, True])
def test_a_full_file_is_put_aside(path, make, fsync):
    """Nothing is lost, the order stays, and no file grows beyond its size."""
    fill(path, make, 30, fsync=fsync)
    files = [*JsonlAudit(path).segments(), path]
    assert [each.name for each in files[:2]] == ["audit.jsonl.1", "audit.jsonl.2"]
    assert all(0 < each.stat().st_size <= 1_000 for each in files)
    assert names(path) == [f"exe_{number}" for number in range(30)]


def test_a_chain_goes_on_through_all_files(path, make):
    """It is verified as one, and continued after a restart, whichever file is the last."""
    for first in range(0, 30, 3):
        fill(path, make, 3, first=first)
    report = verify_chain(read_jsonl(path))
    assert (report.ok, report.checked) == (True, 30)


def test_a_chain_is_continued_from_a_full_file(path, make):
    """A crash between putting one aside and writing the next one loses nothing."""
    fill(path, make, 10)
    path.rename(f"{path}.{len(JsonlAudit(path).segments()) + 1}")
    fill(path, make, 5, first=10)
    assert verify_chain(read_jsonl(path)).checked == 15


def test_a_torn_line_in_a_full_file_is_vouched_for(path, make, log):
    """What a crash left at the end of a file is found and survived in the next one."""
    fill(path, make, 3)
    with path.open("ab") as file:
        file.write(b'{"type":"capa')
    path.rename(f"{path}.{len(JsonlAudit(path).segments()) + 1}")
    fill(path, make, 3, first=3)
    report = verify_chain(read_jsonl(path))
    assert (report.ok, report.checked, report.torn) == (True, 6, 1)


def test_a_missing_file_is_found(path, make):
    """The chain breaks where a whole file is gone."""
    fill(path, make, 30)
    JsonlAudit(path).segments()[3].unlink()
    assert not verify_chain(read_jsonl(path)).ok


def test_one_record_larger_than_a_file_has_its_own(path, make):
    """It is written, not refused."""
    sink = JsonlAudit(path, max_bytes=100)
    for number in range(3):
        sink(make(f"exe_{number}"))
    assert names(path) == ["exe_0", "exe_1", "exe_2"]
    assert len(sink.segments()) == 2


def test_numbers_are_compared_as_numbers(path, make):
    """The tenth file comes after the ninth; other files are left alone."""
    for other in ("audit.jsonl.bak", "audit.jsonl.", "audit.jsonl.2.gz", "other.jsonl.3"):
        path.with_name(other).write_text("mine")
    fill(path, make, 60)
    assert len(JsonlAudit(path).segments()) > 10
    assert verify_chain(read_jsonl(path)).checked == 60


def test_a_file_that_cannot_be_put_aside_grows_on(path, make, log, monkeypatch):
    """Evidence is not lost for want of a name."""

    def refuse(self, target):
        raise OSError("no")

    monkeypatch.setattr(type(path), "rename", refuse)
    fill(path, make, 10)
    assert verify_chain(read_jsonl(path)).checked == 10
    assert {entry["event"] for entry in log} == {"audit_rotation_failed"}


def test_reading_while_a_file_is_put_aside_reads_nothing_twice(path, make):
    """Whoever has begun to read gets each record once."""
    chain = fill(path, make, 3)
    lines = read_jsonl(path)
    first = [next(lines)]
    for number in range(3, 9):
        chain(make(f"exe_{number}"))
    rest = [*first, *lines]
    assert len(rest) == len(set(rest)) >= 3


def test_old_files_are_removed_and_the_chain_stays_good(path, make):
    """A record says up to where it was cut, and who did it."""
    chain = fill(path, make, 30)
    for file in JsonlAudit(path).segments()[:2]:
        assert file.exists()
    later = datetime.now(UTC) + timedelta(days=365 * 100)
    removed = chain.trim(later, by=OPS)
    assert removed > 2
    report = verify_chain(read_jsonl(path))
    assert report.ok
    assert report.trimmed + report.checked == 30 + removed
    told = [json.loads(line) for line in read_jsonl(path)]
    assert [each["actor"]["id"] for each in told if each["type"] == "audit.trimmed"]


def test_younger_files_stay(path, make):
    """A file is removed when its last record is older, and not before."""
    chain = fill(path, make, 30)
    assert chain.trim(datetime(2000, 1, 1, tzinfo=UTC), by=OPS) == 0
    assert verify_chain(read_jsonl(path)).checked == 30


def test_a_file_removed_by_hand_is_found_after_trimming(path, make):
    """Only the cut that was recorded is vouched for."""
    chain = fill(path, make, 30)
    chain.trim(datetime.now(UTC) + timedelta(days=365 * 100), by=OPS)
    fill(path, make, 10, first=30)
    JsonlAudit(path).segments()[0].unlink()
    assert not verify_chain(read_jsonl(path)).ok


def test_a_sink_without_full_files_cannot_be_trimmed(make):
    """It says so."""

    class Kept:
        def write(self, record):
            """Keep nothing."""

        def tail(self):
            """Return an empty stream's end."""
            return JsonlAudit(os.devnull).tail()

    with pytest.raises(TypeError, match="keeps no full files"):
        ChainedAudit(Kept()).trim(datetime.now(UTC), by=OPS)
    assert not hasattr(MemoryAudit(), "segments")


@pytest.mark.parametrize(
    ("size", "error"),
    [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("1", TypeError), (True, TypeError)],
)
def test_a_size_is_a_positive_whole_number(path, size, error):
    """Nothing is opened otherwise."""
    with pytest.raises(error, match="max_bytes"):
        JsonlAudit(path, max_bytes=size)
    assert not path.exists()
