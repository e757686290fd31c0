"""A context for unit tests of plain handlers: no engine, no event loop, nothing executed."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

import structlog
from typing_extensions import TypeVar

from capgate.call import Progress
from capgate.testing.actors import fake_actor

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from capgate.approvals import ApprovalRecord
    from capgate.call import Actor, Argument, Outcome

DepsT = TypeVar("DepsT", default=None)
# Called as the handler calls it: (capability, input, **options); sync or async.
Nested: TypeAlias = Callable[..., Any]


def _logger() -> FilteringBoundLogger:
    logger: FilteringBoundLogger = structlog.get_logger("capgate")
    return logger


@dataclass(frozen=True, eq=False)
class FakeContext(Generic[DepsT]):
    """What a handler sees of `Context`, from fields; see `fake_context`.

    Args:
        progressed: What the handler reported through `progress`, in order.
        nested_invoke: Answers `invoke`.
        nested_attempt: Answers `attempt`, and `invoke` too when that has no answer of its own.
    """

    deps: DepsT
    _: KW_ONLY
    execution_id: str = "exe_test"
    capability_id: str = "test"
    surface: str = "direct"
    actor: Actor = field(default_factory=fake_actor)
    approval: ApprovalRecord | None = None
    correlation_id: str = "exe_test"
    parent_execution_id: str | None = None
    idempotency_key: str = "exe_test"
    attempt_number: int = 1
    deadline: float = math.inf
    logger: FilteringBoundLogger = field(default_factory=_logger)
    state: dict[str, object] = field(default_factory=dict[str, object])
    progressed: list[Progress] = field(default_factory=list[Progress])
    nested_invoke: Nested | None = None
    nested_attempt: Nested | None = None

    async def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Record how far the handler is."""
        self.progressed.append(Progress(self.execution_id, done, total, message))

    async def invoke(self, capability: object, input: Argument = None, **options: Any) -> Any:
        """Answer a nested call as the test said.

        Raises:
            AssertionError: The test said nothing about nested calls.
        """
        if self.nested_invoke is None and self.nested_attempt is not None:
            return (await self.attempt(capability, input, **options)).unwrap()
        return await _answer("invoke", self.nested_invoke, capability, input, **options)

    async def attempt(
        self, capability: object, input: Argument = None, **options: Any
    ) -> Outcome[Any]:
        """Answer a nested call with an outcome as the test said.

        Raises:
            AssertionError: The test said nothing about nested calls.
        """
        outcome: Outcome[Any] = await _answer(
            "attempt", self.nested_attempt, capability, input, **options
        )
        return outcome


def fake_context(
    deps: Any = None,
    *,
    invoke: Nested | None = None,
    attempt: Nested | None = None,
    **fields: Any,
) -> FakeContext[Any]:
    """Return a context to call `handle.handler` with.

    Ids follow `execution_id` where they would in an engine; `.progressed` holds what the handler
    reported.

    Args:
        deps: The dependencies.
        invoke: Answers `context.invoke(capability, input, **options)`; sync or async.
        attempt: Answers `context.attempt`, with an outcome.
        **fields: Any other field of `Context`.

    Raises:
        TypeError: There is no such field.
    """
    execution_id = fields.get("execution_id", "exe_test")
    fields.setdefault("correlation_id", execution_id)
    fields.setdefault("idempotency_key", execution_id)
    return FakeContext(deps, nested_invoke=invoke, nested_attempt=attempt, **fields)


async def _answer(
    what: str, nested: Nested | None, capability: object, input_: Argument, **options: Any
) -> Any:
    if nested is None:
        raise AssertionError(
            f"the handler called context.{what}({capability!r}): say what it answers with"
            f" fake_context({what}=…)"
        )
    answer = nested(capability, input_, **options)
    return await answer if inspect.isawaitable(answer) else answer
