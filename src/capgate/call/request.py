"""What a caller claims, before anything of it has been judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from capgate.call.token import CancelToken

Argument: TypeAlias = Any
"""A value that a handler takes, of the type its contract says."""


Claim: TypeAlias = tuple[Argument, object, object]
"""What every caller says: an input, who calls, and the dependencies for this call."""


@dataclass(slots=True, eq=False, repr=False)
class Request:
    """What a caller claims beyond an input, an actor and deps; few calls do.

    The pipeline establishes facts from it and does not read them twice.
    """

    credentials: object = None
    cancel: CancelToken | None = None
    timeout: Any = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    parent_execution_id: str | None = None


USUAL: Final = Request()
"""Nothing more was claimed. Shared by most calls, so nobody may change it."""
