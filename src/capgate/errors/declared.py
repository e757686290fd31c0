"""What a handler's author raises on purpose: `DomainError`, `Unauthenticated`, `Forbidden`.

They only carry what the author said. How they are read, and whether they are shown, is decided
in `normalize.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final, cast

from capgate.errors.codes import GENERIC_MESSAGE, TABLE, Effect, ErrorCode

if TYPE_CHECKING:
    from capgate.errors.foreign import JSON

_WORD_STARTS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class _ClassName:
    """The default of `DomainError.code`: the class name in UPPER_SNAKE."""

    def __get__(self, instance: object, owner: type) -> str:
        return _WORD_STARTS.sub("_", owner.__name__).upper()


class Declared(Exception):
    """The common base: an exception with a message that its author means for the caller."""

    message: str = GENERIC_MESSAGE

    def __init__(self, message: str | None = None) -> None:
        super().__init__(*(() if message is None else (message,)))
        if message is not None:
            self.message = message

    def __str__(self) -> str:
        return self.message


class DomainError(Declared):
    """A failure that is part of a capability's contract, and may be shown to its caller.

    Class attributes: `code` (default: the class name in UPPER_SNAKE), `message`, `retryable`,
    `effect` (`Effect.NONE`: raised before anything was done) and `public_details` (True: the
    code and the details are shown too).

    Args:
        message: this failure's text for the caller. None: the class's.
        details: JSON data about it, shown only if the class says `public_details = True`.
    """

    # A cast, because subclasses override the computed default with a plain string.
    code: ClassVar[str] = cast("str", _ClassName())
    retryable: bool = False
    effect: ClassVar[Effect] = Effect.UNKNOWN
    public_details: ClassVar[bool] = False
    details: JSON = None

    def __init__(self, message: str | None = None, *, details: JSON = None) -> None:
        super().__init__(message)
        if details is not None:
            self.details = details


class Unauthenticated(Declared):
    """The handler does not know who is asking: UNAUTHENTICATED."""

    message: str = TABLE[ErrorCode.UNAUTHENTICATED].message


class Forbidden(Declared):
    """The handler refuses this actor: FORBIDDEN."""

    message: str = TABLE[ErrorCode.FORBIDDEN].message
