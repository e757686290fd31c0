"""One recorded line of `calls.jsonl`: what was done, and what must come of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from capgate import ErrorCode, FailureStage
from capgate.errors import JSON

CALLS: Final = Path(__file__).parent.parent / "calls.jsonl"
Op = Literal[
    "call", "invoke", "resume", "race", "approve", "reject", "withdraw", "discover", "advance"
]
EXECUTIONS: Final = frozenset({"call", "invoke", "resume", "race"})


class Expect(BaseModel):
    """What must come of one line; a field that is missing is not judged.

    `output` and `shown` are subsets: every key they name must be there with that value.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: str | None = None
    code: ErrorCode | None = None
    stage: FailureStage | None = None
    reason: str | None = None
    effect: Literal["none", "done", "unknown"] | None = None
    public: ErrorCode | None = None
    public_details: bool | None = None
    attempts: int | None = None
    replayed: bool | None = None
    output: JSON = None
    shown: JSON = None
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    same_as: str | None = None
    tally: dict[str, int] | None = None


class Entry(BaseModel):
    """One recorded line.

    `label` names the approval that a call opens, so that later lines can decide and resume it.
    `faults` are names from `faults.py` and hold for this line only.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    op: Op
    capability: str | None = None
    input: JSON = None
    actor: str | None = None
    token: str | None = None
    surface: str | None = None
    label: str | None = None
    approval: str | None = None
    key: str | None = None
    timeout: float | None = None
    times: int = Field(default=1, ge=1, le=50)
    by: str | None = None
    comment: str | None = None
    faults: tuple[str, ...] = ()
    expect: Expect = Expect()
    note: str


def load_entries(path: Path = CALLS) -> list[Entry]:
    """Read the recorded lines, oldest first."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Entry.model_validate_json(line) for line in lines if line.strip()]
