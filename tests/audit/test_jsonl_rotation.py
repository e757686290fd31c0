"""A file that is put aside when it is full, and the chain that goes on through all of them."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from capgate import Actor
from capgate.audit import AuditEvent, ChainedAudit, JsonlAudit, read_jsonl, segments, verify_chain

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


def test_reading_before_the_next_file_is_made_reads_all(path, make):
    """Between putting one aside and opening the next there is none by that name."""
    fill(path, make, 10)
    path.rename(f"{path}.{len(JsonlAudit(path).segments()) + 1}")
    assert names(path) == [f"exe_{number}" for number in range(10)]


def test_files_that_look_alike_are_left_alone(path, make):
    """One with a leading zero, and a folder, are somebody else's."""
    path.with_name("audit.jsonl.01").write_text("mine")
    path.with_name("audit.jsonl.3").mkdir()
    fill(path, make, 10)
    assert names(path) == [f"exe_{number}" for number in range(10)]


def test_a_stream_stays_where_it_was_opened(path, make, tmp_path, monkeypatch):
    """Wherever the process goes, and through a link, full files are put beside the file itself."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "audit.jsonl").write_text("mine")
    monkeypatch.chdir(tmp_path)
    chain = ChainedAudit(JsonlAudit("audit.jsonl", max_bytes=1_000))
    monkeypatch.chdir(there)
    for number in range(10):
        chain(make(f"exe_{number}"))
    assert verify_chain(read_jsonl(path)).checked == 10
    assert [each.name for each in there.iterdir()] == ["audit.jsonl"]
    link = there / "link.jsonl"
    link.symlink_to(path)
    fill(link, make, 10, first=10)
    assert verify_chain(read_jsonl(path)).checked == 20


def test_a_folder_that_cannot_be_listed_is_not_listed_for_nothing(path, make, monkeypatch):
    """A file that holds a record says itself how its chain stands."""
    ChainedAudit(JsonlAudit(path))(make("exe_1"))

    def refuse(self):
        raise PermissionError("no")

    monkeypatch.setattr(type(path), "iterdir", refuse)
    ChainedAudit(JsonlAudit(path))(make("exe_2"))


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
    assert [entry["event"] for entry in log] == ["audit_rotation_failed"]


def test_reading_while_a_file_is_put_aside_reads_nothing_twice(path, make, monkeypatch):
    """One that is put aside after it was opened, before the others are listed, counts once."""
    chain, numbers = fill(path, make, 3), iter(range(3, 9))
    listed = segments.segments_of

    def late(where):
        found = listed(where)
        for number in numbers:  # the first time
            chain(make(f"exe_{number}"))
        return found

    monkeypatch.setattr(segments, "segments_of", late)
    assert names(path) == [f"exe_{number}" for number in range(9)]


def dated(path, *years):
    """A chain with ten records of each year, in small files."""
    chain = ChainedAudit(JsonlAudit(path, max_bytes=1_000))
    for year in years:
        for number in range(10):
            at = datetime(year, 6, 1, tzinfo=UTC)
            chain(AuditEvent("capability.started", at, execution_id=f"exe_{year}_{number}"))
    return chain


def test_old_files_are_removed_and_the_chain_stays_good(path):
    """Exactly those whose last record is older; a record says up to where, and who did it."""
    chain = dated(path, 2024, 2025)
    removed = chain.trim(datetime(2025, 1, 1, tzinfo=UTC), by=OPS)
    assert removed > 1
    report = verify_chain(read_jsonl(path))
    assert (report.ok, report.trimmed + report.checked) == (True, 20 + removed)
    told = [json.loads(line) for line in read_jsonl(path)]
    left = {each["timestamp"][:4] for each in told[3:] if each["type"] != "audit.trimmed"}
    assert left == {"2025"}
    assert [each["actor"]["id"] for each in told if each["type"] == "audit.trimmed"] == (
        ["ops"] * removed
    )


def test_younger_files_stay(path):
    """A file is removed when its last record is older, and not before."""
    chain = dated(path, 2025)
    assert chain.trim(datetime(2025, 5, 31, tzinfo=UTC), by=OPS) == 0
    assert verify_chain(read_jsonl(path)).checked == 10


def test_a_broken_chain_is_not_trimmed(path):
    """What is wrong with it would be gone."""
    chain = dated(path, 2024, 2025)
    first = chain._sink.segments()[0]
    first.write_bytes(first.read_bytes().replace(b"exe_2024_1", b"exe_2024_9", 1))
    with pytest.raises(ValueError, match="breaks at record 2"):
        chain.trim(datetime(2025, 1, 1, tzinfo=UTC), by=OPS)
    assert first.exists()


def test_a_file_with_one_younger_record_stays(path):
    """Time may have gone backwards: nothing younger is removed."""
    chain = ChainedAudit(JsonlAudit(path, max_bytes=1_000))
    for year in (2024, 2025, 2024, 2024, 2024, 2024, 2024, 2024):
        chain(AuditEvent("capability.started", datetime(year, 6, 1, tzinfo=UTC)))
    assert chain.trim(datetime(2025, 1, 1, tzinfo=UTC), by=OPS) == 0


def test_what_was_torn_in_a_removed_file_is_gone_with_it(path, make, log):
    """The record after it is the first one now, and the chain stays good."""
    dated(path, 2024)
    with path.open("ab") as file:
        file.write(b'{"type":"capa')
    chain = dated(path, 2025, 2025)
    assert verify_chain(read_jsonl(path)).torn == 1
    while chain.trim(datetime(2025, 1, 1, tzinfo=UTC), by=OPS):
        continue
    report = verify_chain(read_jsonl(path))
    assert (report.ok, report.torn) == (True, 0)


def test_an_async_sink_cannot_be_trimmed(path):
    """Its records could not be awaited."""

    class Remote:
        async def write(self, record):
            """Send it."""

        async def tail(self):
            """Return the end."""

        def segments(self):
            """Return a file that must not be removed."""
            return [path]

        def lines(self):
            """Yield nothing."""
            return iter(())

    path.write_text("mine")
    with pytest.raises(TypeError, match="keeps no full files"):
        ChainedAudit(Remote()).trim(datetime.now(UTC), by=OPS)
    assert path.exists()


def test_a_file_that_cannot_be_opened_once_is_opened_later(path, make, monkeypatch):
    """One event is lost for want of a descriptor, and its sink says so; the next is written."""
    chain = fill(path, make, 1)
    opened = os.open

    def refuse(name, *more):
        if str(name) == str(path):
            raise OSError(errno.EMFILE, "too many open files")
        return opened(name, *more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        for number in range(1, 6):
            with suppress(OSError):
                chain(make(f"exe_{number}"))
    for number in range(6, 9):
        chain(make(f"exe_{number}"))
    assert verify_chain(read_jsonl(path)).ok
    assert names(path)[-3:] == ["exe_6", "exe_7", "exe_8"]


def test_a_closed_file_stays_closed(path, make):
    """Nothing opens it again."""
    sink = JsonlAudit(path, max_bytes=100)
    sink.close()
    with pytest.raises(ValueError, match="closed"):
        sink(make("exe_1"))


def test_a_file_removed_by_hand_is_found_after_trimming(path):
    """Only the cut that was recorded is vouched for."""
    chain = dated(path, 2024, 2025)
    chain.trim(datetime(2025, 1, 1, tzinfo=UTC), by=OPS)
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


@pytest.mark.parametrize(
    ("size", "error"),
    [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("1", TypeError), (True, TypeError)],
)
def test_a_size_is_a_positive_whole_number(path, size, error):
    """Nothing is opened otherwise."""
    with pytest.raises(error, match="max_bytes"):
        JsonlAudit(path, max_bytes=size)
    assert not path.exists()
