"""What a store answers about a key, and what it keeps once a call has ended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeGuard, get_args

from capgate.errors import JSON, CapabilityError, Effect, stamp

if TYPE_CHECKING:
    from capgate.call import Actor

OutcomeStatus: TypeAlias = Literal["completed", "failed", "cancelled"]
_STATUSES: Final = frozenset(get_args(OutcomeStatus))


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """How a call ended, as plain JSON that a store keeps; copied in, so it shares nothing.

    Args:
        execution_id: The execution that ended so.
        status: `completed`, `failed` or `cancelled`.
        output: The dumped output of a completed call.
        error: What `store_error` wrote, of any other.
        effect: What is known about the side effect.
        attempts: Tries of the handler.
        late: Whether it completed after its deadline.

    Raises:
        TypeError, ValueError: A field is not plain JSON, or the status is unknown.
    """

    execution_id: str
    status: OutcomeStatus
    output: JSON = None
    error: Mapping[str, JSON] | None = None
    effect: str = Effect.NONE.value
    attempts: int = 0
    late: bool = False

    def __post_init__(self) -> None:
        """Take copies, and refuse what a store could not keep."""
        if self.status not in _STATUSES:
            raise ValueError("StoredOutcome.status must be completed, failed or cancelled")
        object.__setattr__(self, "output", _plain(self.output))
        object.__setattr__(self, "error", _plain(self.error))
        object.__setattr__(self, "effect", Effect(self.effect).value)

    def to_dict(self) -> dict[str, JSON]:
        """Return the outcome as plain JSON that shares nothing with it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, JSON]) -> StoredOutcome:
        """Return the outcome that `to_dict` wrote.

        Raises:
            TypeError, ValueError: The data is not what `to_dict` writes.
        """
        return cls(**data)


def store_error(error: CapabilityError) -> dict[str, JSON]:
    """Return an error as plain JSON, without its cause."""
    return {
        "code": error.code.value,
        "public_message": error.public_message,
        "stage": error.stage.value,
        "retryable": error.retryable,
        "exposed": error.exposed,
        "details": error.details,
        "reason": error.reason,
        "effect": error.effect.value,
        "execution_id": error.execution_id,
        "approval_id": error.approval_id,
        "public_details": error.public_details,
    }


def restore_error(data: Mapping[str, JSON]) -> CapabilityError:
    """Return the error that `store_error` wrote.

    Raises:
        KeyError, TypeError: The data is not what `store_error` writes.
    """
    facts = dict(data)
    code, message = facts.pop("code"), facts.pop("public_message")
    stamped = {name: facts.pop(name) for name in ("execution_id", "approval_id", "public_details")}
    return stamp(CapabilityError(code, message, **facts), **stamped)


@dataclass(frozen=True, slots=True)
class Claimed:
    """The key is this execution's: run, then complete, suspend or release."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The call has ended: answer with its outcome, run nothing."""

    outcome: StoredOutcome


@dataclass(frozen=True, slots=True)
class Suspended:
    """The call waits for an approval.

    Args:
        approval_id: The request it waits for.
        execution_id: Who holds the key; `release` asks for it once the approval has failed.
    """

    approval_id: str
    execution_id: str = ""


@dataclass(frozen=True, slots=True)
class InFlight:
    """The first call still runs."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The key was used with another input."""


Claim: TypeAlias = Claimed | Replay | Suspended | InFlight | Conflict


def scoped_key(capability_id: str, actor: Actor, key: str) -> str:
    """Return a caller's key as a store sees it: one for each capability and actor.

    No two different triples give the same text, and it is plain ASCII whatever they hold.
    """
    return json.dumps([capability_id, actor.kind, actor.id, key], separators=(",", ":"))


def _plain(value: JSON) -> JSON:
    if value is None or type(value) in {str, int, bool, float}:
        return value
    if _is_object(value):
        return {_name(name): _plain(member) for name, member in value.items()}
    if _is_array(value):
        return [_plain(member) for member in value]
    raise TypeError(f"a stored outcome holds plain JSON, not {type(value).__name__}")


def _is_object(value: object) -> TypeGuard[Mapping[object, JSON]]:
    return isinstance(value, Mapping)


def _is_array(value: object) -> TypeGuard[Sequence[JSON]]:
    return isinstance(value, list | tuple)


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError("a stored outcome holds plain JSON: a name is not a str")
    return name
