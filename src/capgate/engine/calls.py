"""The calls of an engine: each method turns its arguments into a claim and hands it on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Generic, overload

from typing_extensions import ParamSpec, TypeVar, Unpack

from capgate.call import USUAL, Request, outcome_of, output_of
from capgate.engine.describing import explanation
from capgate.errors import CapabilityError, ErrorCode
from capgate.pipeline import authenticated

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from pydantic import BaseModel

    from capgate.call import Actor, Argument, Call, CancelToken, Duration, Outcome
    from capgate.capability import Capability
    from capgate.engine.calling import Caller
    from capgate.engine.describing import Explanation
    from capgate.engine.discover import CapabilityDescriptor, Discoverer, DiscoveryScope
    from capgate.engine.drain import Live
    from capgate.engine.options import CallOptions
    from capgate.engine.registry import Registry
    from capgate.engine.resuming import Resuming
    from capgate.pipeline import Runtime

P = ParamSpec("P")
Out = TypeVar("Out")
Model = TypeVar("Model", bound="BaseModel")
DepsT = TypeVar("DepsT", default=None)


class Calls(Generic[DepsT]):
    """The calls of an engine. `invoke` and `attempt` take the same arguments.

    Args:
        capability: An id, or the handle that the decorator returned.
        input: A mapping of the input's fields, or the input model.
        actor: Who calls; from authenticated transport credentials, never from the input.
        credentials: What `Engine(authenticate=…)` makes an actor of, instead of `actor`.
        surface: Where the call comes from.
        deps: Dependencies for this call, instead of the engine's.
        cancel: A token that stops the call.
        timeout: Seconds, or a timedelta, for the whole call: all stages and attempts.
        correlation_id: Ties this execution to others in the audit.
        idempotency_key: A repeat with the same key and input gets the first call's outcome.
    """

    _runtime: Runtime
    _registry: Registry
    _caller: Caller
    _resuming: Resuming
    _discoverer: Discoverer
    _live: Live

    @overload
    async def invoke(
        self,
        capability: Capability[P, Out],
        input: Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Out: ...
    @overload
    async def invoke(
        self,
        capability: Capability[Concatenate[Model, ...], Out],
        input: Model | Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Out: ...
    @overload
    async def invoke(
        self, capability: str, input: Argument = ..., **options: Unpack[CallOptions]
    ) -> Any: ...
    def invoke(
        self,
        capability: Any,
        input: Argument = None,
        *,
        actor: Actor | None = None,
        credentials: object = None,
        surface: str = "direct",
        deps: Any = None,
        cancel: CancelToken | None = None,
        timeout: Duration | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Call a capability and return its validated, redacted output.

        Args: see the class.

        Raises:
            CapabilityError: The call did not complete.
            TypeError: An argument that no call can have.
        """
        usual = credentials is None and cancel is None and timeout is None
        request = USUAL
        if not usual or correlation_id is not None or idempotency_key is not None:
            request = Request(credentials, cancel, timeout, correlation_id, idempotency_key)
        return self._caller.run(capability, surface, (input, actor, deps), request, output_of)

    @overload
    async def attempt(
        self,
        capability: Capability[P, Out],
        input: Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Outcome[Out]: ...
    @overload
    async def attempt(
        self,
        capability: Capability[Concatenate[Model, ...], Out],
        input: Model | Mapping[str, Any] | None = ...,
        **options: Unpack[CallOptions],
    ) -> Outcome[Out]: ...
    @overload
    async def attempt(
        self, capability: str, input: Argument = ..., **options: Unpack[CallOptions]
    ) -> Outcome[Any]: ...
    def attempt(
        self,
        capability: Any,
        input: Argument = None,
        *,
        actor: Actor | None = None,
        credentials: object = None,
        surface: str = "direct",
        deps: Any = None,
        cancel: CancelToken | None = None,
        timeout: Duration | None = None,
        correlation_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Coroutine[Any, Any, Outcome[Any]]:
        """Call a capability and return its outcome; arguments as `invoke`.

        Never raises for a governed failure. Use `match` on the four outcomes, or `unwrap()`.

        Raises:
            TypeError: An argument that no call can have.
        """
        usual = credentials is None and cancel is None and timeout is None
        request = USUAL
        if not usual or correlation_id is not None or idempotency_key is not None:
            request = Request(credentials, cancel, timeout, correlation_id, idempotency_key)
        return self._caller.run(capability, surface, (input, actor, deps), request, outcome_of)

    async def resume(
        self,
        approval_id: str,
        *,
        actor: Actor | None = None,
        expected_surface: str | None = None,
        deps: Any = None,
        cancel: CancelToken | None = None,
        timeout: Duration | None = None,
    ) -> Any:
        """Execute an approved call, once, as its original requester; returns its output.

        Args:
            approval_id: The approval.
            actor: Who relays the resume: must be the requester. None for trusted code.
            expected_surface: The surface it must have been asked for on. None for any.
            deps: As for `invoke`.
            cancel: As for `invoke`.
            timeout: As for `invoke`.

        Raises:
            CapabilityError: The approval cannot be used, or the call did not complete.
        """
        outcome = await self.attempt_resume(
            approval_id,
            actor=actor,
            expected_surface=expected_surface,
            deps=deps,
            cancel=cancel,
            timeout=timeout,
        )
        return outcome.unwrap()

    async def attempt_resume(
        self,
        approval_id: str,
        *,
        actor: Actor | None = None,
        expected_surface: str | None = None,
        deps: Any = None,
        cancel: CancelToken | None = None,
        timeout: Duration | None = None,
    ) -> Outcome[Any]:
        """Execute an approved call and return its outcome; arguments as `resume`."""
        claim, request = (None, actor, deps), Request(cancel=cancel, timeout=timeout)
        return await self._resuming.run(approval_id, expected_surface, claim, request)

    async def discover(
        self,
        surface: str,
        *,
        actor: Actor | None = None,
        credentials: object = None,
        deps: Any = None,
        scope: DiscoveryScope | None = None,
    ) -> list[CapabilityDescriptor]:
        """Return what a caller may see on a surface, in order of registration.

        Args:
            surface: The surface.
            actor: Who looks; anonymous when None.
            credentials: Instead of `actor`.
            deps: What discovery policies see as `request.deps`.
            scope: Narrows the walk before any policy runs; it is no authority.

        Raises:
            CapabilityError: TIMEOUT at stage discovery when the walk took too long;
                UNAUTHENTICATED when the credentials are refused.
        """
        claim, request = (None, actor, deps), Request(credentials)
        return await self._discoverer.walk(surface, claim, request, scope)

    async def explain(
        self,
        capability: Capability[..., Any] | str,
        input: Argument = None,
        *,
        actor: Actor | None = None,
        credentials: object = None,
        surface: str = "direct",
        deps: Any = None,
    ) -> Explanation:
        """Run every stage but execution, with no side effect, and tell each one's verdict.

        For trusted tooling only: it tells concealed truths. Arguments as `invoke`.
        """
        claim, request = (input, actor, deps), Request(credentials)
        stages = await self._caller.explain(capability, surface, claim, request)
        return explanation(stages)

    async def authenticate(self, credentials: object) -> Actor:
        """Return who these credentials prove.

        Raises:
            CapabilityError: UNAUTHENTICATED, or INTERNAL_ERROR when the authenticator failed.
            TypeError: The engine has no authenticator.
        """
        if self._runtime.authenticate is None:
            raise TypeError("this engine has no authenticator: Engine(authenticate=…)")
        if credentials is None:
            raise CapabilityError(ErrorCode.UNAUTHENTICATED)
        return await authenticated(
            self._runtime.authenticate, credentials, self._runtime.policy_timeout
        )

    async def _nest(
        self, capability: Any, input: Argument, *, parent: Call, **options: Any
    ) -> Outcome[Any]:
        """Serve `Context.attempt`: a call inside another."""
        surface: str = options.pop("surface", "direct")
        claim = (input, options.pop("actor", None), options.pop("deps", None))
        request = Request(parent_execution_id=parent.execution_id, **options)
        call, plan = self._caller.open(capability, surface, claim, request)
        return await self._caller.carry(call, plan, outcome_of)
