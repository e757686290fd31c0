"""The application's dependencies: one value for all calls, or made for each by a factory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio

from capgate.call import Invocation, Overrun, Stray, bounded

if TYPE_CHECKING:
    from capgate.call import Call
    from capgate.pipeline import Plan

Factory: TypeAlias = Callable[[Invocation], object]

_NOT_MADE: Final = object()


class Dependencies:
    """Decides what `deps` a call has."""

    __slots__ = ("_seconds", "_type", "simple", "value", "factory")

    def __init__(self, given: object, type_: type | None, seconds: float) -> None:
        """Take the engine's own.

        Args:
            given: A value, a factory of an `Invocation`, or None.
            type_: What deps must be an instance of; None for anything.
            seconds: How long a factory, and leaving what it made, may take.

        Raises:
            TypeError: A value of the wrong type.
        """
        value = given is None or (type_ is not None and isinstance(given, type_))
        self.factory: Factory | None = None if value or not callable(given) else given
        self._type = type_
        self._seconds = seconds
        self.value = None if self.factory is not None else given
        if self.value is not None:
            self._check(self.value)
        # Nothing to make and nothing that can be missing.
        self.simple = self.factory is None and (self.value is not None or type_ is None)

    def of(self, given: object) -> Any:
        """Return the deps of a call, before any factory has run.

        Raises:
            TypeError: Missing, or of the wrong type.
        """
        if given is not None:
            self._check(given)
            return given
        if self.factory is not None:
            return _NOT_MADE
        if self.value is None and self._type is not None:
            raise TypeError(f"deps is missing: pass a {self._type.__name__}")
        return self.value

    def _check(self, value: object) -> None:
        if self._type is not None and not isinstance(value, self._type):
            raise TypeError(f"deps must be a {self._type.__name__}, got {type(value).__name__}")

    async def carry(self, call: Call, plan: Plan) -> None:
        """Make the deps, run the plan with them, and leave what was entered."""
        await self._within(call, plan, lambda ready: ready.carry(call))

    async def explain(
        self, call: Call, plan: Plan, verdicts: list[tuple[str, str, str | None]]
    ) -> None:
        """Make the deps and explain the plan with them."""

        async def explain(ready: Plan) -> None:
            verdicts.extend(await ready.explain(call))

        await self._within(call, plan, explain)

    async def _within(self, call: Call, plan: Plan, run: Callable[[Plan], Awaitable[None]]) -> None:
        if call.deps is not _NOT_MADE or self.factory is None:
            await run(plan)
            return
        call.deps = None
        if plan.refuses:
            await run(plan)
            return
        entered: AbstractAsyncContextManager[Any] | None = None
        try:
            entered = await self._make(call, self.factory)
        except (Overrun, Stray, Exception) as error:
            await run(plan.refusing(error))
            return
        try:
            await run(plan)
        finally:
            if entered is not None:
                await self._leave(call, entered)

    async def _make(self, call: Call, factory: Factory) -> AbstractAsyncContextManager[Any] | None:
        made = factory(Invocation(call))
        if isinstance(made, Awaitable):
            made = await bounded(made, self._seconds)
        entered: AbstractAsyncContextManager[Any] | None = None
        if isinstance(made, AbstractAsyncContextManager):
            entered = made
            # Not bounded by a scope: a context manager may hold one open across its body.
            made = await entered.__aenter__()
        self._check(made)
        call.deps = made
        return entered

    async def _leave(self, call: Call, entered: AbstractAsyncContextManager[Any]) -> None:
        with anyio.move_on_after(self._seconds, shield=True):
            try:
                await entered.__aexit__(None, None, None)
            except Exception as error:
                call.logger.error(
                    "deps_exit_failed", error_type=type(error).__name__, exc_info=error
                )
