"""Reading errors that may lie, and the only way to change a field of one: a stamped copy.

Nothing here decides what an error means or what may be shown.
"""

from __future__ import annotations

from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

from capgate.errors.codes import Effect, ErrorCode, FailureStage
from capgate.errors.error import CapabilityError, Record, rebuild
from capgate.errors.foreign import contained

if TYPE_CHECKING:
    from collections.abc import Callable

_NONE: Final = type(None)
# One entry for each field of Record but `details`, which is checked where it is copied.
_TYPES: Final[tuple[tuple[type, ...], ...]] = (
    (ErrorCode,),
    (str,),
    (FailureStage,),
    (bool,),
    (bool,),
    (str, _NONE),
    (Effect,),
    (str, _NONE),
    (str, _NONE),
    (bool,),
    (bool,),
)

# Read through the type machinery itself: a hostile class or metaclass cannot answer instead.
_read_mro: Final = vars(type)["__mro__"].__get__
_read_vars: Final = vars(type)["__dict__"].__get__
_read_record: Final = vars(CapabilityError)["_record"].__get__
facts_of: Final[Callable[[CapabilityError], Record]] = attrgetter("_record")
"""Every field at once, of an error that capgate made."""
_write_record: Final = vars(CapabilityError)["_record"].__set__
_new: Final[Callable[[type[Record], tuple[object, ...]], Record]] = vars(tuple)["__new__"]
_new_error: Final = Exception.__new__
_OWN: Final = frozenset(
    {
        *(name for name in vars(CapabilityError) if not name.startswith("__")),
        *("__getattribute__", "__dict__", "__notes__"),
        *("__cause__", "__context__", "__suppress_context__", "__traceback__"),
    }
)


def mro_of(kind: type) -> tuple[type, ...]:
    """The real method resolution order of a class, whatever its metaclass says."""
    return cast("tuple[type, ...]", _read_mro(kind))


def record_of(error: object) -> Record | None:
    """The fields of a `CapabilityError` that can be trusted, or None.

    An object that only claims the class, a subclass that answers for a field, and a record with
    values of the wrong type are not trusted. No code of the object runs.
    """
    kind = type(error)
    if not issubclass(kind, CapabilityError):
        return None
    added = takewhile(lambda base: base is not CapabilityError, mro_of(kind))
    if any(_OWN & _read_vars(base).keys() for base in added):
        return None
    record = contained(lambda: _read_record(error))
    return record if _is_sound(record) else None


def _is_sound(record: object) -> bool:
    if type(record) is not Record:
        return False
    return all(type(field) in kinds for field, kinds in zip(record, _TYPES, strict=False))


def is_own(error: object) -> bool:
    """Is it exactly a `CapabilityError`, with fields of the right types?"""
    return type(error) is CapabilityError and record_of(error) is not None


def stamp(
    error: CapabilityError,
    *,
    execution_id: str | None = None,
    stage: FailureStage | None = None,
    effect: Effect | None = None,
    approval_id: str | None = None,
    public_details: bool | None = None,
) -> CapabilityError:
    """A copy with these fields replaced; None keeps a field.

    Cause, context, traceback and notes are kept. The result is exactly a `CapabilityError`.

    Raises:
        TypeError: the error's own fields cannot be trusted.
    """
    record = record_of(error)
    if record is None:
        raise TypeError("not a CapabilityError with readable fields")
    changes: dict[str, Any] = {
        "execution_id": execution_id,
        "stage": stage,
        "effect": effect,
        "approval_id": approval_id,
        "public_details": public_details,
    }
    wanted = {name: value for name, value in changes.items() if value is not None}
    copy = rebuild(CapabilityError, record._replace(**wanted))
    for note in contained(lambda: [*map(str, error.__notes__)]) or ():
        copy.add_note(note)
    copy.__cause__ = error.__cause__
    copy.__context__ = error.__context__
    copy.__suppress_context__ = error.__suppress_context__
    return copy.with_traceback(error.__traceback__)


def seal(error: CapabilityError, execution_id: str, effect: Effect) -> CapabilityError:
    """Write an execution's facts on an error that was made for it and that nobody has seen yet.

    The one change in place: a refusal is on the hot path. What others may hold is stamped.
    """
    r: Record = facts_of(error)
    _write_record(error, _new(Record, r[:6] + (effect, execution_id) + r[8:]))  # noqa: RUF005  on the path of every refusal
    return error


def _plain(code: ErrorCode) -> tuple[Record, str]:
    error = CapabilityError(code)
    return _read_record(error), str(error)


_PLAIN: Final = {code: _plain(code) for code in ErrorCode}


def refusal(
    code: ErrorCode,
    cause: BaseException | None = None,
    *,
    message: str | None = None,
    reason: str | None = None,
    execution_id: str | None = None,
) -> CapabilityError:
    """Return an error with the table's values, made fast: for capgate's own refusals.

    With an `execution_id` it needs no sealing, where nothing has been executed.
    """
    record, text = _PLAIN[code]
    # Taken apart and put together by hand, which is the fastest way.
    _, shown, stage, retryable, exposed, _, effect, _, approval_id, public, dropped, details = (
        record
    )
    if message:
        shown, text = message, f"{code._value_}: {message}"
    known = (
        code,
        shown,
        stage,
        retryable,
        exposed,
        reason,
        effect,
        execution_id,
        approval_id,
        public,
        dropped,
        details,
    )
    record = _new(Record, known)
    # Past the constructor, which checks what authors say.
    error = _new_error(CapabilityError, text)
    _write_record(error, record)
    if cause is not None:
        error.__cause__ = cause
    return error
