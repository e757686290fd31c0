"""How records are linked: each names the hash of the one before, so that tampering shows.

Here: linking, hashing and where a chain stands. Not here: writing, verifying, trimming.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from capgate.capability import input_hash
from capgate.errors import ConfigurationError, Issue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from capgate.audit.lines import Tail
    from capgate.errors import JSON

GENESIS: Final = "0" * 64


class Head(NamedTuple):
    """Where a chain stands: the last record's number and hash, and what is torn after it."""

    seq: int = 0
    hash: str = GENESIS
    torn: str | None = None


def link(head: Head, record: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return `record` as the one that follows `head`."""
    linked = {**record, "seq": head.seq + 1, "prev": head.hash}
    if head.torn is not None:
        linked["torn"] = head.torn
    linked["hash"] = digest(linked)
    return linked


def digest(record: Mapping[str, JSON]) -> str:
    """Return the hash of a record, over everything in it but its own `hash`.

    Raises:
        ValueError: It has no canonical form.
    """
    return input_hash({k: v for k, v in record.items() if k != "hash"})


def head_of(tail: Tail) -> Head:
    """Return where a stored chain stands.

    Raises:
        ConfigurationError: The last record is not part of a chain.
    """
    torn = torn_digest(tail.torn) if tail.torn else None
    if tail.record is None:
        return Head(torn=torn)
    seq, own = tail.record.get("seq"), tail.record.get("hash")
    if type(seq) is not int or type(own) is not str:
        problem = "the last record is not part of a chain: start a new stream"
        raise ConfigurationError([Issue("AUDIT_CHAIN_INVALID", problem, "sink")])
    return Head(seq, own, torn)


def torn_digest(lines: Iterable[bytes]) -> str:
    """Return the hash of lines that are no records, each ended by a newline."""
    return sha256(b"".join(line + b"\n" for line in lines)).hexdigest()
