"""The hash chain over a file: linking, going on after a restart, verifying."""

from __future__ import annotations

import gc
import json
from hashlib import sha256

import anyio
import pytest
import rfc8785

from capgate.audit import ChainedAudit, JsonlAudit, Tail, VerifyReport, verify_chain
from capgate.errors import ConfigurationError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


class Rows:
    """An async durable sink that can fail after it wrote."""

    def __init__(self):
        self.rows = []
        self.failing = False

    async def write(self, record):
        await anyio.lowlevel.checkpoint()
        self.rows.append(dict(record))
        if self.failing:
            raise OSError("lost the answer")

    async def tail(self):
        await anyio.lowlevel.checkpoint()
        return Tail(self.rows[-1] if self.rows else None)


def lines(path):
    return path.read_bytes().splitlines(keepends=True)


def test_each_record_names_the_one_before(path, make):
    """A record carries its number, the previous hash, and its own over canonical bytes."""
    chain = ChainedAudit(JsonlAudit(path))
    chain(make("exe_1"))
    chain(make("exe_2"))
    first, second = map(json.loads, lines(path))
    assert (first["seq"], first["prev"]) == (1, "0" * 64)
    assert (second["seq"], second["prev"]) == (2, first["hash"])
    own = second.pop("hash")
    assert own == sha256(rfc8785.dumps(second)).hexdigest()


def test_a_whole_chain_is_good(path, make):
    """Lines, bytes and records of an untouched stream verify alike."""
    chain = ChainedAudit(JsonlAudit(path))
    for number in range(5):
        chain(make(f"exe_{number}", amount=1.5, comment="Grüße"))
    assert verify_chain(lines(path)) == VerifyReport(ok=True, checked=5)
    assert verify_chain(line.decode() for line in lines(path)).ok
    assert verify_chain(map(json.loads, lines(path))).ok


def test_an_empty_stream_is_good():
    """Nothing to check is nothing wrong."""
    assert verify_chain(["", b"\n"]).ok
    assert verify_chain([]) == VerifyReport(ok=True, checked=0, first_bad=None)


def test_the_chain_goes_on_after_a_restart(path, make):
    """A new process continues the chain of the file that it finds."""
    for number in range(3):
        ChainedAudit(JsonlAudit(path))(make(f"exe_{number}"))
    assert verify_chain(lines(path)) == VerifyReport(ok=True, checked=3)


def test_the_chain_vouches_for_a_torn_line(path, make, log):
    """After a crash in a line the chain goes on, names what is torn, and verifies."""
    ChainedAudit(JsonlAudit(path))(make("exe_1"))
    for number in range(2, 4):
        with path.open("ab") as file:
            file.write(b'{"type":"Gr\xc3')
        ChainedAudit(JsonlAudit(path))(make(f"exe_{number}"))
    assert verify_chain(lines(path)) == VerifyReport(ok=True, checked=3, torn=2)
    damaged = [line.replace(b'{"type":"Gr', b'{"type":"gr') for line in lines(path)]
    assert verify_chain(damaged).first_bad == 2


def test_a_record_that_lacks_only_its_newline_is_kept(path, make, log):
    """A crash just before the newline loses nothing: the chain goes on from that record."""
    ChainedAudit(JsonlAudit(path))(make("exe_1"))
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    ChainedAudit(JsonlAudit(path))(make("exe_2"))
    assert verify_chain(lines(path)) == VerifyReport(ok=True, checked=2)


def test_a_torn_line_at_the_end_is_bad(path, make):
    """A line that no later record vouches for is where the stream breaks."""
    ChainedAudit(JsonlAudit(path))(make())
    assert verify_chain([*lines(path), b'{"type"']) == VerifyReport(
        ok=False, checked=1, first_bad=2
    )


def test_a_file_of_other_records_is_refused(path, make):
    """A stream that is no chain cannot be continued as one."""
    JsonlAudit(path)(make())
    with pytest.raises(ConfigurationError, match="chain"):
        ChainedAudit(JsonlAudit(path))


@pytest.mark.parametrize("sink", [print, None, object()])
def test_a_sink_that_keeps_nothing_is_refused(sink):
    """A chain needs a sink that writes records and gives the last one back."""
    with pytest.raises(ConfigurationError) as caught:
        ChainedAudit(sink)
    assert len(caught.value.issues) == 2


class Forgetful(JsonlAudit):
    """Writes, then says that it did not."""

    failing = True

    def write(self, record):
        super().write(record)
        if self.failing:
            raise OSError("lost the answer")


def test_a_failed_write_is_looked_up(path, make):
    """When a write fails, the chain goes on from what is really stored."""
    sink = Forgetful(path)
    chain = ChainedAudit(sink)
    with pytest.raises(OSError, match="lost"):
        chain(make("exe_1"))
    sink.failing = False
    chain(make("exe_2"))
    assert verify_chain(lines(path)) == VerifyReport(ok=True, checked=2)


class Interrupted(JsonlAudit):
    """A sink in whose write another event is audited, as the garbage collector may do."""

    inner = None

    def write(self, record):
        inner, self.inner = self.inner, None
        if inner:
            inner()
        super().write(record)


def test_an_event_during_a_write_waits_its_turn(path, make):
    """An event audited in the middle of a write neither hangs nor breaks the chain."""
    sink = Interrupted(path)
    chain = ChainedAudit(sink)
    sink.inner = lambda: chain(make("exe_2"))
    chain(make("exe_1"))
    assert [json.loads(line)["execution_id"] for line in lines(path)] == ["exe_1", "exe_2"]
    assert verify_chain(lines(path)).ok


async def test_an_async_sink_is_chained_under_concurrency(make):
    """Events that arrive together are numbered one after the other."""
    rows = Rows()
    chain = ChainedAudit(rows)
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(chain, make(f"exe_{number}"))
    assert verify_chain(rows.rows) == VerifyReport(ok=True, checked=20)


async def test_an_async_sink_is_asked_after_a_failure(make):
    """A failed and a cancelled write leave a chain that goes on from what is stored."""
    rows = Rows()
    chain = ChainedAudit(rows)
    rows.failing = True
    with pytest.raises(OSError, match="lost"):
        await chain(make("exe_1"))
    rows.failing = False
    with anyio.CancelScope() as scope:
        scope.cancel()
        await chain(make("exe_2"))
    await ChainedAudit(rows)(make("exe_3"))
    assert verify_chain(rows.rows) == VerifyReport(ok=True, checked=2)


def test_verification_takes_constant_memory(path, make):
    """Records are let go as they are checked."""

    class Record(dict):
        pass

    chain = ChainedAudit(JsonlAudit(path))
    for number in range(20):
        chain(make(f"exe_{number}"))

    def one_by_one():
        for line in lines(path):
            gc.collect()
            assert sum(type(thing) is Record for thing in gc.get_objects()) <= 2
            yield Record(json.loads(line))

    assert verify_chain(one_by_one()).checked == 20


def test_the_head_shows_a_cut_end(path, make):
    """The report names the last hash, which differs when records at the end are gone."""
    chain = ChainedAudit(JsonlAudit(path))
    chain(make("exe_1"))
    chain(make("exe_2"))
    whole, cut = verify_chain(lines(path)), verify_chain(lines(path)[:1])
    assert whole.head == json.loads(lines(path)[-1])["hash"]
    assert cut.ok
    assert cut.head != whole.head
