"""The file sink: one line a record, whatever happened to the line before."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest

from capgate.audit import JsonlAudit
from capgate.audit.lines import parse_line


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def records(path):
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def test_one_line_an_event(path, make):
    """Each event is one line, readable as soon as the sink returns."""
    sink = JsonlAudit(path)
    for number in range(3):
        sink(make(f"exe_{number}"))
        assert len(records(path)) == number + 1
    assert [record["execution_id"] for record in records(path)] == ["exe_0", "exe_1", "exe_2"]


def test_an_existing_file_is_appended_to(path, make):
    """Opening a file again keeps what is in it."""
    JsonlAudit(path)(make("exe_1"))
    JsonlAudit(path, fsync=True)(make("exe_2"))
    assert [record["execution_id"] for record in records(path)] == ["exe_1", "exe_2"]


def test_text_is_utf8_and_stays_on_its_line(path, make):
    """Letters are written as they are; nothing in a text can start a new line."""
    text = "Grüße\n\r\u2028\u2029\x85\ud800"
    JsonlAudit(path)(make(comment=text))
    (line,) = path.read_text("utf-8").splitlines()
    assert "Grüße" in line
    assert json.loads(line)["data"]["comment"] == text.replace("\ud800", "?")


def test_a_torn_line_is_reported_and_left_behind(path, make, log):
    """After a crash in the middle of a line, the next record starts on a line of its own."""
    path.write_bytes(b'{"type":"capability.st')
    JsonlAudit(path)(make("exe_2"))
    torn, whole = path.read_bytes().splitlines()
    assert torn == b'{"type":"capability.st'
    assert json.loads(whole)["execution_id"] == "exe_2"
    assert [entry["event"] for entry in log] == ["audit_torn_line"]


def test_opening_a_torn_file_changes_nothing(path, log):
    """A file is only written to when there is a record to write."""
    path.write_bytes(b'{"type"')
    JsonlAudit(path)
    assert path.read_bytes() == b'{"type"'


def test_a_write_cut_short_does_not_damage_the_next(path, make, monkeypatch):
    """When the disk takes half a line and then fails, the next record is whole."""
    sink, write = JsonlAudit(path), os.write
    answers = iter([lambda fd, data: write(fd, data[:9]), lambda fd, data: os.write(-1, data)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: next(answers)(fd, data) if fd != -1 else fail())
        with pytest.raises(OSError, match="disk"):
            sink(make("exe_1"))
    sink(make("exe_2"))
    assert records_of_whole_lines(path) == ["exe_2"]


def fail():
    raise OSError("disk")


def records_of_whole_lines(path):
    parsed = [parse_line(line) for line in path.read_bytes().splitlines()]
    return [record["execution_id"] for record in parsed if record]


def test_tail_is_the_last_whole_record(path, make, log):
    """The tail is found behind torn lines, which it returns in their order."""
    sink = JsonlAudit(path)
    sink(make("exe_1"))
    sink(make("exe_2"))
    with path.open("ab") as file:
        file.write(b'{"a"\n\n{"b"')
    tail = JsonlAudit(path).tail()
    assert tail.record["execution_id"] == "exe_2"
    assert tail.torn == (b'{"a"', b'{"b"')


def test_tail_of_a_record_longer_than_a_block(path):
    """A last record of any length is read back whole."""
    sink = JsonlAudit(path)
    sink.write({"n": 1})
    sink.write({"n": 2, "text": "ä" * 200_000})
    assert sink.tail().record["n"] == 2
    assert JsonlAudit(path.with_name("empty")).tail() == (None, ())


@pytest.mark.skipif(os.name != "posix", reason="devices are a POSIX matter")
def test_a_device_has_no_torn_line(make):
    """Writing to what is no file works: nothing is read back."""
    JsonlAudit(os.devnull)(make())


def test_a_closed_file_refuses_records(path, make):
    """After close nothing is written, and closing again does nothing."""
    sink = JsonlAudit(path)
    sink.close()
    sink.close()
    with pytest.raises(ValueError, match="closed"):
        sink(make())


@pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX matter")
def test_the_file_is_its_owners(path):
    """A new audit file can be read by nobody but its owner."""
    JsonlAudit(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_threads_do_not_mix_their_lines(path, make):
    """Records written by several threads at once are all there, each on its line."""
    sink = JsonlAudit(path)

    def write(name):
        for number in range(50):
            sink(make(f"{name}.{number}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({record["execution_id"] for record in records(path)}) == 200


@pytest.mark.parametrize(
    "line", ["", "[]", "1", "{", '{"a":1,"a":2}', '{"a":NaN}', b"\xff", "[" * 100_000]
)
def test_what_is_no_single_object_is_no_record(line):
    """A line with another value, a key twice or broken text is not a record."""
    assert parse_line(line) is None
