"""The one governed failure, `CapabilityError`, and the record that carries its fields.

What an author raises is in `declared.py`; reading an error that may lie is in `reading.py`.
All fields live in one immutable record in a slot, so that neither an attribute of a subclass
nor an assignment can change what capgate reads.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final, NamedTuple, NoReturn, TypeVar, cast

from capgate.errors.codes import TABLE, Effect, ErrorCategory, ErrorCode, FailureStage
from capgate.errors.foreign import JSON, contained, json_copy

EnumT = TypeVar("EnumT", bound=StrEnum)

DETAILS_DROPPED: Final = "capgate: the details were dropped, they are not JSON data"


class Record(NamedTuple):
    """Every field of a `CapabilityError`, frozen."""

    code: ErrorCode
    public_message: str
    stage: FailureStage
    retryable: bool
    exposed: bool
    reason: str | None
    effect: Effect
    execution_id: str | None = None
    approval_id: str | None = None
    public_details: bool = False
    details_dropped: bool = False
    details: JSON = None


class CapabilityError(Exception):
    """A governed failure, immutable once built; raise it `from` its private cause.

    Args:
        code: the code, or its exact string.
        public_message: the only text that may leave the process. None: the code's own.
        stage: where it failed. None: the code's own.
        retryable: could an identical request succeed later? None: the code's own.
        exposed: may code and message leave, or only the generic shape? None: the code's own.
        details: JSON data, captured by copy. Data that is not JSON is dropped with a note, and
            an error that would have shown it is shown in the generic shape.
        reason: the true reason, for the audit only.
        effect: what is known about the side effect.

    Raises:
        TypeError: an argument has the wrong type, or the code, stage or effect is unknown.
    """

    __slots__ = ("_record",)
    _record: Record

    def __init__(
        self,
        code: ErrorCode | str,
        public_message: str | None = None,
        *,
        stage: FailureStage | str | None = None,
        retryable: bool | None = None,
        exposed: bool | None = None,
        details: JSON = None,
        reason: str | None = None,
        effect: Effect | str = Effect.NONE,
    ) -> None:
        if contained(lambda: object.__getattribute__(self, "_record")) is not None:
            _refuse_change("_record")
        known = _member(ErrorCode, code, "code")
        rule = TABLE[known]
        message = _text(public_message, "public_message")
        # A one-element list tells "copied as null" from "not JSON".
        copied = contained(lambda: [json_copy(details)])
        record = Record(
            code=known,
            public_message=rule.message if message is None else message,
            stage=rule.stage if stage is None else _member(FailureStage, stage, "stage"),
            retryable=_flag(retryable, "retryable", default=rule.retryable),
            exposed=_flag(exposed, "exposed", default=rule.exposed),
            reason=_text(reason, "reason"),
            effect=_member(Effect, effect, "effect"),
            details_dropped=copied is None,
            details=None if copied is None else copied[0],
        )
        super().__init__(f"{record.code}: {record.public_message}")
        object.__setattr__(self, "_record", record)
        if copied is None:
            self.add_note(DETAILS_DROPPED)

    @property
    def code(self) -> ErrorCode:
        """The stable name of the failure."""
        return self._record.code

    @property
    def public_message(self) -> str:
        """The only message that may leave the process."""
        return self._record.public_message

    @property
    def stage(self) -> FailureStage:
        """The pipeline stage that failed."""
        return self._record.stage

    @property
    def retryable(self) -> bool:
        """Could an identical request succeed later?"""
        return self._record.retryable

    @property
    def exposed(self) -> bool:
        """May the code and the public message leave, or only the generic shape?"""
        return self._record.exposed

    @property
    def details(self) -> JSON:
        """Structured, safe data; a fresh copy at every read."""
        return json_copy(self._record.details)

    @property
    def reason(self) -> str | None:
        """The true reason (a `DomainError`'s own code), for the audit."""
        return self._record.reason

    @property
    def effect(self) -> Effect:
        """What is known about the handler's side effect; private."""
        return self._record.effect

    @property
    def execution_id(self) -> str | None:
        """The execution that failed; private, None until an engine has stamped it."""
        return self._record.execution_id

    @property
    def approval_id(self) -> str | None:
        """The approval to wait for, on APPROVAL_REQUIRED."""
        return self._record.approval_id

    @property
    def public_details(self) -> bool:
        """Did the author's `DomainError` class opt in to showing its details?"""
        return self._record.public_details

    @property
    def category(self) -> ErrorCategory:
        """The coarse category of the code."""
        return TABLE[self._record.code].category

    def __str__(self) -> str:
        return f"{self._record.code}: {self._record.public_message}"

    def __repr__(self) -> str:
        r = self._record
        return (
            f"CapabilityError(code={r.code.value!r}, stage={r.stage.value!r},"
            f" execution_id={r.execution_id!r})"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        _refuse_change(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        _refuse_change(name)
        super().__delattr__(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (type(self), self._record), dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any] | None) -> None:
        self.__dict__.update(state or {})


def _refuse_change(name: str) -> None:
    # The interpreter, contextlib and add_note write dunder attributes of an exception in flight.
    machinery = name.startswith("__") and name.endswith("__")
    if not machinery or name in {"__class__", "__dict__"}:
        raise AttributeError(f"a CapabilityError is immutable: {name!r} cannot be changed")


def _member(enum: type[EnumT], value: object, what: str) -> EnumT:
    text = str.__str__(value) if isinstance(value, str) else _refuse(value, what, enum.__name__)
    member = enum._value2member_map_.get(text)
    if member is None:
        raise TypeError(f"{what} is not one of {enum.__name__}'s values: {text!r}")
    return cast("EnumT", member)


def _text(value: object, what: str) -> str | None:
    if value is None:
        return None
    return str.__str__(value) if isinstance(value, str) else _refuse(value, what, "str")


def _flag(value: object, what: str, *, default: bool) -> bool:
    if value is None:
        return default
    return value if isinstance(value, bool) else _refuse(value, what, "bool")


def _refuse(value: object, what: str, expected: str) -> NoReturn:
    raise TypeError(f"{what} must be of type {expected}, not {type(value).__name__}")


def rebuild(kind: type[CapabilityError], record: Record) -> CapabilityError:
    """An error of that class with that record, without running a subclass's `__init__`."""
    error = kind.__new__(kind)
    Exception.__init__(error, f"{record.code}: {record.public_message}")
    object.__setattr__(error, "_record", record)
    return error
