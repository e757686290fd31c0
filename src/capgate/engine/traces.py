"""Tracebacks as text: the lines of code that failed, without the values that they worked on."""

from __future__ import annotations

from pathlib import Path
from traceback import StackSummary, TracebackException
from typing import Final, cast

from capgate.capability import ContractViolation
from capgate.errors import contained

# Its files, and the plans that it writes.
_OWN: Final = (str(Path(__file__).parent.parent), "<capgate plan")


def traceback_text(raised: BaseException) -> str:
    """Return the traceback of what was raised, or only its type when it cannot be read.

    Renderers of `exc_info` may show local variables, and with them inputs and credentials. What
    lies below a broken contract is left out: a validator's text quotes the value. So are capgate's
    own frames above the application's.
    """
    # What foreign code raised may break when it is looked at.
    return contained(lambda: _shown(raised)) or f"{type(raised).__qualname__}: unreadable"


def _shown(raised: BaseException) -> str:
    shown = TracebackException.from_exception(raised)
    _cut(shown, raised)
    return "".join(shown.format())


def _cut(shown: TracebackException, raised: BaseException) -> None:
    pairs: list[tuple[TracebackException | None, BaseException | None]] = [(shown, raised)]
    while pairs:
        told, error = pairs.pop()
        if told is None or error is None:
            continue
        _skip_own(told.stack)
        if issubclass(type(error), ContractViolation):
            told.__cause__ = told.__context__ = None
            continue
        pairs += [(told.__cause__, error.__cause__), (told.__context__, error.__context__)]
        if isinstance(error, BaseExceptionGroup):
            leaves = cast("tuple[BaseException, ...]", error.exceptions)
            pairs += zip(told.exceptions or (), leaves, strict=False)


def _skip_own(stack: StackSummary) -> None:
    foreign = (at for at, frame in enumerate(stack) if not frame.filename.startswith(_OWN))
    del stack[: next(foreign, 0)]
