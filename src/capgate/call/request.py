"""What a caller claims, before anything of it has been judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from capgate.call.token import CancelToken

Argument: TypeAlias = Any
"""A value that a handler takes, of the type its contract says."""


class Request:
    """One claimed call; the pipeline establishes facts from it and does not read them twice."""

    __slots__ = (
        "actor",
        "cancel",
        "correlation_id",
        "credentials",
        "deps",
        "idempotency_key",
        "input",
        "parent_execution_id",
        "timeout",
    )

    def __init__(
        self,
        input_: Argument,
        actor: object,
        *,
        credentials: object = None,
        deps: object = None,
        cancel: CancelToken | None = None,
        timeout: float | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
        parent_execution_id: str | None = None,
    ) -> None:
        """Hold the claim as it came."""
        self.input = input_
        self.actor = actor
        self.credentials = credentials
        self.deps = deps
        self.cancel = cancel
        self.timeout = timeout
        self.correlation_id = correlation_id
        self.idempotency_key = idempotency_key
        self.parent_execution_id = parent_execution_id
