"""What a caller claims, before anything of it has been judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from capgate.call.token import CancelToken

Argument: TypeAlias = Any
"""A value that a handler takes, of the type its contract says."""


class Request:
    """One claimed call; the pipeline establishes facts from it and does not read them twice.

    Defaults live on the class: most calls claim an input, an actor and nothing else.
    """

    unusual = False
    credentials: object = None
    cancel: CancelToken | None = None
    timeout: Any = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    parent_execution_id: str | None = None

    def __init__(self, input_: Argument, actor: object, deps: object = None) -> None:
        """Hold the claim as it came."""
        self.input = input_
        self.actor = actor
        self.deps = deps

    def claim(  # six claims by name, none of them usual
        self,
        *,
        credentials: object = None,
        cancel: CancelToken | None = None,
        timeout: object = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
        parent_execution_id: str | None = None,
    ) -> None:
        """Add what few calls claim; it has to be checked."""
        self.unusual = True
        self.credentials = credentials
        self.cancel = cancel
        self.timeout = timeout
        self.correlation_id = correlation_id
        self.idempotency_key = idempotency_key
        self.parent_execution_id = parent_execution_id
