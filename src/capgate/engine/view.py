"""An engine as seen from one surface: the same calls, and nobody can name another surface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Generic, overload

from typing_extensions import ParamSpec, TypeVar, Unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from capgate.call import Argument, Outcome
    from capgate.capability import Capability
    from capgate.engine.describing import Explanation
    from capgate.engine.discover import CapabilityDescriptor
    from capgate.engine.engine import Engine
    from capgate.engine.options import (
        DiscoverOptions,
        ExplainOptions,
        ResumeOptions,
        ViewCallOptions,
    )

P = ParamSpec("P")
Out = TypeVar("Out")
Model = TypeVar("Model", bound="BaseModel")
DepsT = TypeVar("DepsT", default=None)


class EngineView(Generic[DepsT]):
    """The calls of an engine with their surface fixed."""

    __slots__ = ("_engine", "_surface")

    def __init__(self, engine: Engine[DepsT], surface: str) -> None:
        """See `Engine.on`."""
        self._engine = engine
        self._surface = surface

    @property
    def surface(self) -> str:
        """The surface of every call made here."""
        return self._surface

    @overload
    async def invoke(
        self,
        capability: Capability[P, Out],
        input: Mapping[str, Any] | None = ...,
        **options: Unpack[ViewCallOptions],
    ) -> Out: ...
    @overload
    async def invoke(
        self,
        capability: Capability[Concatenate[Model, ...], Out],
        input: Model | Mapping[str, Any] | None = ...,
        **options: Unpack[ViewCallOptions],
    ) -> Out: ...
    @overload
    async def invoke(
        self, capability: str, input: Argument = ..., **options: Unpack[ViewCallOptions]
    ) -> Any: ...
    async def invoke(self, capability: Any, input: Argument = None, **options: Any) -> Any:
        """See `Engine.invoke`."""
        return await self._engine.invoke(capability, input, surface=self._surface, **options)

    @overload
    async def attempt(
        self,
        capability: Capability[P, Out],
        input: Mapping[str, Any] | None = ...,
        **options: Unpack[ViewCallOptions],
    ) -> Outcome[Out]: ...
    @overload
    async def attempt(
        self,
        capability: Capability[Concatenate[Model, ...], Out],
        input: Model | Mapping[str, Any] | None = ...,
        **options: Unpack[ViewCallOptions],
    ) -> Outcome[Out]: ...
    @overload
    async def attempt(
        self, capability: str, input: Argument = ..., **options: Unpack[ViewCallOptions]
    ) -> Outcome[Any]: ...
    async def attempt(
        self, capability: Any, input: Argument = None, **options: Any
    ) -> Outcome[Any]:
        """See `Engine.attempt`."""
        return await self._engine.attempt(capability, input, surface=self._surface, **options)

    async def resume(self, approval_id: str, **options: Unpack[ResumeOptions]) -> Any:
        """See `Engine.resume`; only approvals asked for on this surface."""
        outcome = await self.attempt_resume(approval_id, **options)
        return outcome.unwrap()

    async def attempt_resume(
        self, approval_id: str, **options: Unpack[ResumeOptions]
    ) -> Outcome[Any]:
        """See `Engine.attempt_resume`; only approvals asked for on this surface."""
        return await self._engine.attempt_resume(
            approval_id, expected_surface=self._surface, **options
        )

    async def discover(self, **options: Unpack[DiscoverOptions]) -> list[CapabilityDescriptor]:
        """See `Engine.discover`."""
        return await self._engine.discover(self._surface, **options)

    async def explain(
        self,
        capability: Capability[..., Any] | str,
        input: Argument = None,
        **options: Unpack[ExplainOptions],
    ) -> Explanation:
        """See `Engine.explain`."""
        return await self._engine.explain(capability, input, surface=self._surface, **options)

    def __repr__(self) -> str:
        return f"EngineView({self._engine.name!r}, {self._surface!r})"
