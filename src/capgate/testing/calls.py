"""The calls of a test engine: as `Engine`'s, with what a test need not say filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, overload

from pydantic import BaseModel
from typing_extensions import ParamSpec, TypeVar, Unpack

from capgate.call import ApprovalRequired

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capgate.call import Actor, Argument, Outcome
    from capgate.capability import Capability
    from capgate.engine import (
        CallOptions,
        CapabilityDescriptor,
        DiscoverOptions,
        Engine,
        ExplainOptions,
        Explanation,
        ResumeOptions,
    )
    from capgate.testing.automatic import AutoAnswer

P = ParamSpec("P")
Out = TypeVar("Out")
Model = TypeVar("Model", bound=BaseModel)


class FilledCalls:
    """Calls with a default actor and default dependencies; `TestEngine` builds the parts."""

    engine: Engine[Any]
    actor: Actor
    deps: Any
    _auto: AutoAnswer | None

    @overload
    async def invoke(
        self,
        capability: Capability[Concatenate[Model, ...], Out],
        input: Model | Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Out: ...
    @overload
    async def invoke(
        self,
        capability: Capability[P, Out],
        input: Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Out: ...
    @overload
    async def invoke(
        self, capability: str, input: Argument = ..., **options: Unpack[CallOptions]
    ) -> Any: ...
    async def invoke(self, capability: Any, input: Argument = None, **options: Any) -> Any:
        """Call a capability and return its output; arguments and failures as `Engine.invoke`."""
        return (await self._attempt(capability, input, options)).unwrap()

    @overload
    async def attempt(
        self,
        capability: Capability[Concatenate[Model, ...], Out],
        input: Model | Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Outcome[Out]: ...
    @overload
    async def attempt(
        self,
        capability: Capability[P, Out],
        input: Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Outcome[Out]: ...
    @overload
    async def attempt(
        self, capability: str, input: Argument = ..., **options: Unpack[CallOptions]
    ) -> Outcome[Any]: ...
    async def attempt(
        self, capability: Any, input: Argument = None, **options: Any
    ) -> Outcome[Any]:
        """Call a capability and return its outcome; arguments as `Engine.attempt`."""
        return await self._attempt(capability, input, options)

    async def resume(
        self,
        approval_id: str,
        *,
        expected_surface: str | None = None,
        **options: Unpack[ResumeOptions],
    ) -> Any:
        """Execute an approved call and return its output; as `Engine.resume`.

        The actor is not filled in: without one, trusted code resumes as the requester.
        """
        outcome = await self.attempt_resume(
            approval_id, expected_surface=expected_surface, **options
        )
        return outcome.unwrap()

    async def attempt_resume(
        self,
        approval_id: str,
        *,
        expected_surface: str | None = None,
        **options: Unpack[ResumeOptions],
    ) -> Outcome[Any]:
        """Execute an approved call and return its outcome; the actor as for `resume`."""
        filled = self._with_deps(options)
        return await self.engine.attempt_resume(
            approval_id, expected_surface=expected_surface, **filled
        )

    async def discover(
        self, surface: str = "direct", **options: Unpack[DiscoverOptions]
    ) -> list[CapabilityDescriptor]:
        """Return what the caller may see on a surface; arguments as `Engine.discover`."""
        return await self.engine.discover(surface, **self._filled(options))

    async def explain(
        self,
        capability: Capability[..., Any] | str,
        input: Argument = None,
        *,
        surface: str = "direct",
        **options: Unpack[ExplainOptions],
    ) -> Explanation:
        """Tell each stage's verdict without executing; arguments as `Engine.explain`."""
        filled = self._filled(options)
        return await self.engine.explain(capability, input, surface=surface, **filled)

    async def _attempt(
        self, capability: Any, input_: Argument, options: Mapping[str, Any]
    ) -> Outcome[Any]:
        filled = self._filled(options)
        outcome = await self.engine.attempt(capability, input_, **filled)
        if self._auto is None or not isinstance(outcome, ApprovalRequired):
            return outcome
        kept = {name: filled[name] for name in ("deps", "cancel", "timeout") if name in filled}
        return await self._auto.settle(self.engine, outcome, **kept)

    def _filled(self, options: Mapping[str, Any]) -> dict[str, Any]:
        filled = self._with_deps(options)
        if filled.get("actor") is None and filled.get("credentials") is None:
            filled["actor"] = self.actor
        return filled

    def _with_deps(self, options: Mapping[str, Any]) -> dict[str, Any]:
        return dict(options) if options.get("deps") is not None else {**options, "deps": self.deps}
