"""An engine as seen from one surface: the same calls, and nobody can name another surface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from capgate.call import Argument, Outcome
    from capgate.engine.describing import Explanation
    from capgate.engine.discover import CapabilityDescriptor, DiscoveryScope
    from capgate.engine.engine import Engine

DepsT = TypeVar("DepsT", default=None)


class EngineView(Generic[DepsT]):
    """The calls of an engine with their surface fixed."""

    __slots__ = ("_engine", "surface")

    surface: str

    def __init__(self, engine: Engine[DepsT], surface: str) -> None:
        """See `Engine.on`."""
        self._engine = engine
        self.surface = surface

    async def invoke(self, capability: Any, input: Argument = None, **options: Any) -> Any:
        """See `Engine.invoke`."""
        return await self._engine.invoke(capability, input, surface=self.surface, **options)

    async def attempt(
        self, capability: Any, input: Argument = None, **options: Any
    ) -> Outcome[Any]:
        """See `Engine.attempt`."""
        return await self._engine.attempt(capability, input, surface=self.surface, **options)

    async def resume(self, approval_id: str, **options: Any) -> Any:
        """See `Engine.resume`; only approvals asked for on this surface."""
        return await self._engine.resume(approval_id, expected_surface=self.surface, **options)

    async def attempt_resume(self, approval_id: str, **options: Any) -> Outcome[Any]:
        """See `Engine.attempt_resume`; only approvals asked for on this surface."""
        return await self._engine.attempt_resume(
            approval_id, expected_surface=self.surface, **options
        )

    async def discover(
        self, *, scope: DiscoveryScope | None = None, **options: Any
    ) -> list[CapabilityDescriptor]:
        """See `Engine.discover`."""
        return await self._engine.discover(self.surface, scope=scope, **options)

    async def explain(self, capability: Any, input: Argument = None, **options: Any) -> Explanation:
        """See `Engine.explain`."""
        return await self._engine.explain(capability, input, surface=self.surface, **options)

    def __repr__(self) -> str:
        return f"EngineView({self._engine.name!r}, {self.surface!r})"
