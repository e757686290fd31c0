"""What a caller claims, before anything of it has been judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from capgate.call.token import CancelToken

Argument: TypeAlias = Any
"""A value that a handler takes, of the type its contract says."""


@dataclass(slots=True, eq=False, repr=False)
class Request:
    """One claimed call; the pipeline establishes facts from it and does not read them twice.

    `unusual` says that there is more than an input, an actor and deps, and it has to be checked.
    """

    input: Argument
    actor: object
    deps: object = None
    unusual: bool = False
    credentials: object = None
    cancel: CancelToken | None = None
    timeout: Any = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    parent_execution_id: str | None = None
