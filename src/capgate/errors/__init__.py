"""Errors: one private truth, one public face. The only door of this room.

No logic lives here. What fails is in `codes`, how it is carried in `error`, what authors raise
in `declared`, how it is translated in `normalize`, what leaves the process in `public`.
"""

from __future__ import annotations

from capgate.errors.codes import (
    GENERIC_MESSAGE,
    TABLE,
    CodeRule,
    Effect,
    ErrorCategory,
    ErrorCode,
    FailureStage,
)
from capgate.errors.configuration import (
    CompositionError,
    ConfigurationError,
    Declaration,
    IdCollision,
    ImportIdNotFound,
    ImportInvalid,
    Issue,
    RemapNotSelected,
    is_composition_error,
)
from capgate.errors.declared import DomainError, Forbidden, Unauthenticated
from capgate.errors.error import CapabilityError, Record
from capgate.errors.foreign import JSON, contained, is_exit, members_of
from capgate.errors.normalize import class_failure, normalize
from capgate.errors.public import public_error
from capgate.errors.reading import facts_of, is_own, refusal, seal, stamp

__all__ = [
    # The table
    "ErrorCode",
    "FailureStage",
    "ErrorCategory",
    "Effect",
    "CodeRule",
    "TABLE",
    "GENERIC_MESSAGE",
    # The error, and what an author raises
    "CapabilityError",
    "DomainError",
    "Unauthenticated",
    "Forbidden",
    "JSON",
    # The public face
    "public_error",
    # Construction time
    "ConfigurationError",
    "Issue",
    "CompositionError",
    "Declaration",
    "IdCollision",
    "ImportInvalid",
    "ImportIdNotFound",
    "RemapNotSelected",
    "is_composition_error",
    # For the other rooms
    "normalize",
    "class_failure",
    "contained",
    "is_exit",
    "members_of",
    "facts_of",
    "is_own",
    "Record",
    "refusal",
    "seal",
    "stamp",
]
