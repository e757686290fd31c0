"""What a handler or a custom stage raised becomes a `CapabilityError`: the one translation.

What the author declared is contract and may be shown; everything else is internals. Nothing here
makes the public shape (`public.py`), and nothing here formats a foreign exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from capgate.errors.codes import Effect, ErrorCode, FailureStage
from capgate.errors.declared import Declared, DomainError, Forbidden, Unauthenticated
from capgate.errors.error import CapabilityError
from capgate.errors.foreign import JSON, contained, is_exit, json_copy, leaves_of, plain_text
from capgate.errors.reading import mro_of, record_of, stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

UNREADABLE: Final = "capgate: the fields of the raised error could not be read"
UNMAPPED: Final = "capgate: the class this exception is mapped to could not be built"


class _Terms(NamedTuple):
    """The contract of one call that a raised exception is read under."""

    declared: tuple[type[DomainError], ...] | None
    exceptions: Mapping[type[Exception], type[Exception]]
    effect: Effect


class _Facts(NamedTuple):
    """What a `DomainError` said, read once and checked."""

    reason: str
    message: str
    retryable: bool
    harmless: bool
    public_details: bool
    details: JSON


def normalize(
    raised: BaseException,
    *,
    declared: tuple[type[DomainError], ...] | None,
    exceptions: Mapping[type[Exception], type[Exception]],
    effect: Effect,
) -> CapabilityError:
    """The governed failure that stands for what a handler raised; it never raises.

    Args:
        raised: what escaped from the handler.
        declared: the capability's `errors`. None or empty: every `DomainError` is contract.
        exceptions: foreign exception classes and what they are raised as.
        effect: what is known about the side effect of this attempt.

    Returns:
        The error, with what was raised as its cause. INTERNAL_ERROR for an exit of the process,
        which the caller of this function is to re-raise.
    """
    if is_exit(raised):
        return _caused(CapabilityError(ErrorCode.INTERNAL_ERROR, effect=effect), raised)
    leaves = leaves_of(raised)
    if len(leaves) > 1:
        return _concealed(raised, effect)
    return _from_leaf(leaves[0], _Terms(declared, exceptions, effect))


def class_failure(stage: FailureStage, raised: BaseException) -> CapabilityError:
    """The fail-closed failure of a stage that raised something of its own.

    Returns:
        POLICY_FAILED for policy, FORBIDDEN (not exposed) for authorization, otherwise
        INTERNAL_ERROR at that stage; what was raised is the cause.
    """
    if stage is FailureStage.POLICY:
        error = CapabilityError(ErrorCode.POLICY_FAILED)
    elif stage is FailureStage.AUTHORIZATION:
        error = CapabilityError(ErrorCode.FORBIDDEN, exposed=False)
    else:
        error = CapabilityError(ErrorCode.INTERNAL_ERROR, stage=stage)
    return _caused(error, raised)


def _from_leaf(leaf: BaseException, terms: _Terms) -> CapabilityError:
    if issubclass(type(leaf), CapabilityError):
        return _from_capability_error(leaf, terms.effect)
    if issubclass(type(leaf), Declared):
        return _from_declared(cast("Declared", leaf), leaf, terms)
    target = _target(leaf, terms.exceptions)
    if target is None:
        return _concealed(leaf, terms.effect)
    mapped = contained(target)
    if not issubclass(type(mapped), Declared):
        return _concealed(leaf, terms.effect, note=UNMAPPED)
    return _from_declared(cast("Declared", mapped), leaf, terms)


def _from_capability_error(raised: BaseException, effect: Effect) -> CapabilityError:
    record = record_of(raised)
    if record is None:
        return _concealed(raised, effect, note=UNREADABLE)
    nested = record.execution_id is not None
    if nested or record.code is not ErrorCode.EXECUTION_FAILED:
        return _concealed(raised, effect)
    # Stage and effect are the runtime's to know, not the author's to say.
    return stamp(cast("CapabilityError", raised), stage=FailureStage.EXECUTION, effect=effect)


def _from_declared(said: Declared, raised: BaseException, terms: _Terms) -> CapabilityError:
    if issubclass(type(said), Unauthenticated):
        return _refusal(ErrorCode.UNAUTHENTICATED, said, raised, terms.effect)
    if issubclass(type(said), Forbidden):
        return _refusal(ErrorCode.FORBIDDEN, said, raised, terms.effect)
    if issubclass(type(said), DomainError):
        return _from_domain(cast("DomainError", said), raised, terms)
    return _concealed(raised, terms.effect)


def _refusal(
    code: ErrorCode, said: Declared, raised: BaseException, effect: Effect
) -> CapabilityError:
    message = plain_text(contained(lambda: said.message))
    if message is None:
        return _concealed(raised, effect, note=UNREADABLE)
    return _caused(CapabilityError(code, message, effect=effect), raised)


def _from_domain(said: DomainError, raised: BaseException, terms: _Terms) -> CapabilityError:
    facts = contained(lambda: _facts(said))
    if facts is None:
        return _concealed(raised, terms.effect, note=UNREADABLE)
    effect = Effect.NONE if facts.harmless else terms.effect
    if terms.declared and not _is_listed(type(said), terms.declared):
        broken = CapabilityError(ErrorCode.EXECUTION_FAILED, reason=facts.reason, effect=effect)
        return _caused(broken, raised)
    error = CapabilityError(
        ErrorCode.EXECUTION_FAILED,
        facts.message,
        retryable=facts.retryable,
        exposed=True,
        details=facts.details,
        reason=facts.reason,
        effect=effect,
    )
    return stamp(_caused(error, raised), public_details=facts.public_details)


def _facts(said: DomainError) -> _Facts:
    """Read the fields of a `DomainError`, whose class may answer anything.

    Raises:
        ValueError: a field is not what its name says.
    """
    kind = type(said)
    reason, message, retryable = plain_text(said.code), plain_text(said.message), said.retryable
    if reason is None or message is None or type(retryable) is not bool:
        raise ValueError("not the fields of a DomainError")
    public = kind.public_details is True
    harmless = Effect(kind.effect) is Effect.NONE
    # What will be shown must be readable as a whole; private details may be dropped with a note.
    details = json_copy(said.details) if public else said.details
    return _Facts(reason, message, retryable, harmless, public, details)


def _is_listed(kind: type, declared: Iterable[type]) -> bool:
    bases = mro_of(kind)
    return any(base is listed for listed in declared for base in bases)


def _target(
    raised: BaseException, exceptions: Mapping[type[Exception], type[Exception]]
) -> type[Exception] | None:
    # By identity and the most specific base first: the class of a foreign exception is not asked.
    known = {id(kind): target for kind, target in exceptions.items()}
    return next((known[id(base)] for base in mro_of(type(raised)) if id(base) in known), None)


def _concealed(
    raised: BaseException, effect: Effect, *, note: str | None = None
) -> CapabilityError:
    error = CapabilityError(ErrorCode.EXECUTION_FAILED, effect=effect)
    if note is not None:
        error.add_note(note)
    return _caused(error, raised)


def _caused(error: CapabilityError, cause: BaseException) -> CapabilityError:
    error.__cause__ = cause
    return error
