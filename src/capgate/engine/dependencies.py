"""The application's dependencies: one value for all calls, or made for each by a factory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from capgate.call import CallGuard, resume_native
from capgate.engine.making import Factory, Made, close, leave, make

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from capgate.call import Call
    from capgate.pipeline import Plan

T = TypeVar("T")

_NOT_MADE: Final = object()


def told_apart(given: object, type_: type | None) -> tuple[Any, Factory | None]:
    """Return an engine's deps as a value and a factory, one of which is None."""
    value = given is None or (type_ is not None and isinstance(given, type_))
    return (given, None) if value or not callable(given) else (None, given)


class Dependencies:
    """Decides what `deps` a call has."""

    __slots__ = ("_seconds", "_type", "factory", "simple", "value")

    factory: Factory | None
    simple: bool
    value: Any

    def __init__(self, given: object, type_: type | None, seconds: float) -> None:
        """Take the engine's own.

        Args:
            given: A value, a factory of an `Invocation`, or None.
            type_: What deps must be an instance of; None for anything.
            seconds: How long a factory, and leaving what it made, may take.

        Raises:
            TypeError: A value of the wrong type.
        """
        self.value, self.factory = told_apart(given, type_)
        self._type = type_
        self._seconds = seconds
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

    async def carry(self, call: Call, plan: Plan, end: Callable[[Call], T]) -> T:
        """Run the plan, which has the deps made first, and leave what was entered."""
        return await self._within(call, plan, lambda call: plan.carry_guarded(call, end))

    async def explain(self, call: Call, plan: Plan) -> list[tuple[str, str, str | None]]:
        """Explain the plan, within deps in the same way."""
        return await self._within(call, plan, plan.explain)

    async def _within(self, call: Call, plan: Plan, run: Callable[[Call], Awaitable[T]]) -> T:
        if call.deps is not _NOT_MADE or plan.refuses:
            self.forget(call)
            return await run(call)
        made = Made()

        async def prepare() -> None:
            nonlocal made
            made = await self.make(call)
            if made.broken is not None:
                raise made.broken

        call.prepare = prepare
        if call.guard is None:
            call.guard = CallGuard.around(call)
        try:
            result = await run(call)
        except GeneratorExit:
            close(call, made.scope)  # all that needs no await
            raise
        except BaseException:
            await leave(call, made, self._seconds)
            raise
        await self.leave(call, made)
        return result

    def forget(self, call: Call) -> None:
        """Let a call that nobody will ask for its deps have none."""
        if call.deps is _NOT_MADE:
            call.deps = None

    async def make(self, call: Call) -> Made:
        """Give the call its deps, if they are still to be made; never raises."""
        if call.deps is not _NOT_MADE or self.factory is None:
            return Made()
        call.deps = None
        made = await make(call, self.factory, self._check, seconds=self._seconds)
        call.deps = made.deps
        return made

    async def leave(self, call: Call, made: Made) -> None:
        """Leave what was entered; a failure is reported and changes nothing."""
        await leave(call, made, self._seconds)
        # A cancellation that the shield held back goes on.
        if made.entered is not None and call.native():
            await resume_native(None)
