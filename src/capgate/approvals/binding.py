"""The seal over a record: whoever changes what was asked for, or forges an answer, breaks it.

Only hashing lives here. Without keys it detects accidents; with keys, tampering.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Final

from capgate.approvals.record import ApprovalDecision, ApprovalRecord, ApprovalStatus
from capgate.capability import canonical_json, input_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capgate.errors import JSON

# What may change after the request; everything else is bound.
_MUTABLE: Final = frozenset({"binding", "status", "decisions", "consumed_by"})
_GRANTED: Final = frozenset({ApprovalStatus.APPROVED, ApprovalStatus.CONSUMED})


def bind(record: ApprovalRecord, keys: Sequence[bytes] = ()) -> str:
    """Return the binding of a record, lower-case hex.

    The first key signs (HMAC-SHA256); without keys it is a plain SHA-256.

    Raises:
        TypeError: The actor has no JSON form.
        ValueError: The record has no canonical form.
    """
    return _digest(_bound(record), keys[0] if keys else None)


def intact(record: ApprovalRecord, keys: Sequence[bytes] = ()) -> bool:
    """Whether a stored record still is what was bound, and its status what was decided.

    The input's hash is computed again. With keys every decision must carry a valid seal. A
    record that cannot be hashed at all is not intact.
    """
    try:
        same = input_hash(record.input) == record.input_hash
        bound = _bound(record)
        answers = [_sealed(record, decision) for decision in record.decisions] if keys else []
    except (TypeError, ValueError, RecursionError):
        return False
    if not (same and _justified(record) and _verifies(record.binding, bound, keys)):
        return False
    seals = [decision.seal for decision in record.decisions]
    return all(map(_verifies, seals, answers, repeat(keys)))


def seal(
    record: ApprovalRecord, decision: ApprovalDecision, keys: Sequence[bytes]
) -> ApprovalDecision:
    """Return the decision sealed to its record; unchanged without keys."""
    if not keys:
        return decision
    return replace(decision, seal=_digest(_sealed(record, decision), keys[0]))


def _bound(record: ApprovalRecord) -> bytes:
    facts = {name: fact for name, fact in record.to_dict().items() if name not in _MUTABLE}
    return canonical_json({"capgate": "approval/1", "record": facts})


def _sealed(record: ApprovalRecord, decision: ApprovalDecision) -> bytes:
    facts: dict[str, JSON] = decision.to_dict()
    del facts["seal"]
    return canonical_json({"capgate": "decision/1", "binding": record.binding, "decision": facts})


def _digest(payload: bytes, key: bytes | None) -> str:
    if key is None:
        return hashlib.sha256(payload).hexdigest()
    return hmac.new(key, payload, hashlib.sha256).hexdigest()


def _verifies(claimed: str | None, payload: bytes, keys: Sequence[bytes]) -> bool:
    if not isinstance(claimed, str):
        return False
    given = claimed.encode("utf-8", "surrogatepass")
    # Every key is tried, so that the time taken does not tell which one matched.
    verdicts = [
        hmac.compare_digest(given, _digest(payload, key).encode()) for key in (keys or (None,))
    ]
    return any(verdicts)


def _justified(record: ApprovalRecord) -> bool:
    refused = any(not decision.approved for decision in record.decisions)
    enough = len(record.approvers()) >= record.quorum
    return record.status not in _GRANTED or (enough and not refused)
