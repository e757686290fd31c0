"""What came of one line, in one shape for every kind of line, and how it is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic_core import to_jsonable_python

from capgate import (
    ApprovalRequired,
    CapabilityError,
    Completed,
    Effect,
    ErrorCode,
    FailureStage,
    Outcome,
    public_error,
)
from capgate.approvals import ApprovalRecord
from capgate.errors import JSON
from examples.support_desk.replay.entry import Expect


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One outcome or decision, as a caller saw it."""

    status: str
    code: ErrorCode | None = None
    stage: FailureStage | None = None
    reason: str | None = None
    effect: Effect | None = None
    public: Mapping[str, JSON] | None = None
    attempts: int | None = None
    replayed: bool | None = None
    output: JSON = None
    shown: JSON = None
    execution_id: str | None = None
    approval_id: str | None = None

    @property
    def name(self) -> str:
        """The code, or the status of what has none."""
        return self.status if self.code is None else self.code.value


def seen_outcome(outcome: Outcome[object]) -> Seen:
    """Describe how a call ended."""
    if isinstance(outcome, Completed):
        return Seen(
            status=outcome.status,
            effect=outcome.effect,
            attempts=outcome.attempts,
            replayed=outcome.replayed,
            output=to_jsonable_python(outcome.output),
            execution_id=outcome.execution_id,
        )
    if isinstance(outcome, ApprovalRequired):
        return Seen(
            status=outcome.status,
            effect=outcome.effect,
            shown=outcome.approval.shown_input,
            execution_id=outcome.execution_id,
            approval_id=outcome.approval.id,
        )
    return seen_error(outcome.error, status=outcome.status)


def seen_error(error: CapabilityError, *, status: str = "failed") -> Seen:
    """Describe a governed failure, and what of it would leave the process."""
    return Seen(
        status=status,
        code=error.code,
        stage=error.stage,
        reason=error.reason,
        effect=error.effect,
        public=public_error(error),
        execution_id=error.execution_id,
        approval_id=error.approval_id,
    )


def seen_record(record: ApprovalRecord) -> Seen:
    """Describe what a decision made of an approval."""
    return Seen(status=record.status.value, shown=record.shown_input, approval_id=record.id)


def judge(expect: Expect, seen: Sequence[Seen]) -> tuple[str, ...]:
    """Return what differs from the expectation, one sentence each."""
    if expect.tally is not None:
        tally = Counter(each.name for each in seen)
        return () if tally == expect.tally else (f"tally: expected {expect.tally}, got {tally}",)
    return tuple(problem for each in seen for problem in _differences(expect, each))


def _differences(expect: Expect, seen: Seen) -> Iterator[str]:
    for field in ("status", "code", "stage", "reason", "effect", "attempts", "replayed"):
        wanted, got = getattr(expect, field), getattr(seen, field)
        if wanted is not None and wanted != got:
            yield f"{field}: expected {wanted}, got {got} ({seen.name})"
    public = seen.public or {}
    if expect.public is not None and public.get("code") != expect.public:
        yield f"public: expected {expect.public}, got {public.get('code')}"
    if expect.public_details not in {None, "details" in public}:
        yield f"public details: expected {expect.public_details}"
    yield from _payload_differences(expect, seen)


def _payload_differences(expect: Expect, seen: Seen) -> Iterator[str]:
    if expect.output is not None and not _within(expect.output, seen.output):
        yield f"output: expected {expect.output}, got {seen.output}"
    if expect.shown is not None and not _within(expect.shown, seen.shown):
        yield f"shown input: expected {expect.shown}, got {seen.shown}"
    if expect.has:
        listed = frozenset[str](seen.output)
        missing, surplus = set(expect.has) - listed, listed & set(expect.lacks)
        if missing or surplus:
            yield f"missing: {sorted(missing)}, must not be there: {sorted(surplus)}"


def _within(wanted: JSON, got: JSON) -> bool:
    """Tell whether everything that is wanted is there, at any depth."""
    if type(wanted) is not type(got):
        return False
    return _comparison(wanted)(wanted, got)


def _object_within(wanted: Mapping[str, JSON], got: Mapping[str, JSON]) -> bool:
    return all(key in got and _within(wanted[key], got[key]) for key in wanted)


def _array_within(wanted: Sequence[JSON], got: Sequence[JSON]) -> bool:
    return len(wanted) == len(got) and all(map(_within, wanted, got))


def _equal(wanted: JSON, got: JSON) -> bool:
    return bool(wanted == got)


def _comparison(wanted: object) -> Callable[[JSON, JSON], bool]:
    if isinstance(wanted, dict):
        return _object_within
    return _array_within if isinstance(wanted, list) else _equal
