"""The engine: what a service embeds. It holds the parts together; each part lives next door."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, overload

import anyio
from typing_extensions import ParamSpec, TypeVar, Unpack

from capgate.capability import Capability, CapabilityDecorator, Include, Library, declare
from capgate.engine.assembly import assemble
from capgate.engine.blocking import BlockingEngine, blocking
from capgate.engine.calling import Caller
from capgate.engine.calls import Calls
from capgate.engine.checking import check_engine, check_options
from capgate.engine.dependencies import Dependencies, told_apart
from capgate.engine.describing import description, summary
from capgate.engine.discover import Discoverer
from capgate.engine.drain import Background, DrainReport, Live
from capgate.engine.enrolment import Enrolment
from capgate.engine.housekeeping import keep_house
from capgate.engine.parts import EngineParts
from capgate.engine.registry import Registry
from capgate.engine.resuming import Resuming
from capgate.engine.settings import Settings, close_store, open_store
from capgate.engine.texts import plain
from capgate.engine.view import EngineView
from capgate.pipeline import Pipeline
from capgate.policies import flatten

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from capgate.approvals import Approvals
    from capgate.call import Context, Invocation
    from capgate.capability import CapabilityOptions
    from capgate.engine.describing import CapabilityDescription, CapabilitySummary
    from capgate.engine.options import EngineOptions

DepsT = TypeVar("DepsT", default=None)
P = ParamSpec("P")
Out = TypeVar("Out")


class Engine(Calls[DepsT]):
    """Every call to a governed operation goes through here.

    Build it once, register capabilities, then enter it (`async with engine`) for as long as the
    service runs. An engine that is not entered works too: async sinks are then awaited in place,
    and nothing runs in the background.

    Args:
        name: The application's name, for tooling and adapters.
        version: Its version.
        deps_type: The type that dependencies must have.
        deps: Dependencies for calls that bring none: a value, or a factory of an `Invocation` that
            returns a value, an awaitable, or an async context manager entered for the call.
        libraries: Libraries included whole; `include` can select, rename and prefix.
        surfaces: Names of surfaces besides the built-in ones.
        **settings: pipeline: the stages, `Pipeline.default()` when None. policies: asked at every
            call, before the capability's own. authenticate: an async callable from credentials
            to an `Actor` or None. authorize: an access rule asked at every call. store: one
            database for approvals, audit and idempotency. approvals: a store or an
            `ApprovalConfig`. idempotency: a store of keys. audit: a sink, several, or an
            `AuditConfig`. limits: bounds for every call. exceptions: exception classes of
            handlers, mapped to the `DomainError`, `Forbidden` or `Unauthenticated` class they
            stand for. on_internal_error: told of each private failure. clock: wall time.
            new_id: makes ids. jitter: the share of a back-off to wait, from 0 to 1.

    Raises:
        ConfigurationError: With every setting that is wrong.
        CompositionError: With every conflict between the libraries.
    """

    name: str
    version: str
    approvals: Approvals
    drained: DrainReport | None = None
    """What became of the calls under way when the engine was closed; None before."""

    @overload
    def __init__(
        self: Engine[None],
        name: str,
        *,
        version: str = ...,
        deps_type: None = ...,
        deps: object = ...,
        libraries: Sequence[Library] = ...,
        surfaces: Collection[str] = ...,
        **settings: Unpack[EngineOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        version: str = ...,
        deps_type: type[DepsT],
        deps: DepsT | Callable[[Invocation], object] | None = ...,
        libraries: Sequence[Library] = ...,
        surfaces: Collection[str] = ...,
        **settings: Unpack[EngineOptions],
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        deps_type: type[Any] | None = None,
        deps: object = None,
        libraries: Sequence[Library] = (),
        surfaces: Collection[str] = (),
        **settings: Unpack[EngineOptions],
    ) -> None:
        """See the class."""
        check_engine(name, version, surfaces, deps_type)
        own_surfaces = frozenset(surfaces)
        check_options(settings)
        built = Settings(**settings)
        pipeline = built.pipeline or Pipeline.default()
        self.name = name
        self.version = version
        self._parts = EngineParts(name, version, deps_type, deps, own_surfaces, built)
        value, _ = told_apart(deps, deps_type)
        self._runtime, self._auditor = assemble(built, self._nest, deps=value)
        self._registry = Registry(pipeline, self._runtime)
        dependencies = Dependencies(deps, deps_type, self._runtime.policy_timeout)
        self._discoverer = Discoverer(self._runtime, dependencies)
        self._live = Live(self._runtime.live)
        self._caller = Caller(self._registry, self._runtime, dependencies, self._live)
        self._resuming = Resuming(self._registry, self._caller, self._runtime)
        self._enrolment = Enrolment(
            self._registry,
            self._discoverer,
            runtime=self._runtime,
            pipeline=pipeline,
            surfaces=own_surfaces,
        )
        self._enrolment.include(libraries)
        self._background: Background | None = None
        self.approvals = self._runtime.desk

    @overload
    def capability(
        self, handler: Callable[Concatenate[Context[Any], P], Awaitable[Out]], /
    ) -> Capability[P, Out]: ...
    @overload
    def capability(
        self, handler: Callable[Concatenate[Context[Any], P], Out], /
    ) -> Capability[P, Out]: ...
    @overload
    def capability(self, handler: Callable[P, Awaitable[Out]], /) -> Capability[P, Out]: ...
    @overload
    def capability(self, handler: Callable[P, Out], /) -> Capability[P, Out]: ...
    @overload
    def capability(
        self, id: str | None = None, /, **fields: Unpack[CapabilityOptions]
    ) -> CapabilityDecorator: ...
    def capability(self, id: Any = None, /, **fields: Any) -> Any:
        """Declare a capability; with or without parentheses.

        Args:
            id: Dotted segments of `[a-z0-9][a-z0-9_-]*`; from the function's name when None.
            **fields: See `CapabilityOptions`.

        Raises:
            ConfigurationError: Everything that is wrong with the declaration, at once.
        """
        return declare(self._enrolment.declare, id, fields)

    def include(
        self,
        library: Library,
        *,
        prefix: str = "",
        select: Collection[str] | None = None,
        remap: Mapping[str, str] | None = None,
    ) -> None:
        """Add a library's capabilities.

        Args:
            library: The library.
            prefix: Put before every id, with a dot between.
            select: Only these ids; None for all.
            remap: New ids by declared id.

        Raises:
            CompositionError: With every conflict.
        """
        self._enrolment.include(
            [Include(library=library, prefix=prefix, select=select, remap=remap)]
        )

    def on(self, surface: str) -> EngineView[DepsT]:
        """Return the same calls with the surface fixed; what an adapter holds."""
        named = plain(surface)
        if named is None or not named.strip():
            raise TypeError("surface must be a str that is not blank")
        return EngineView(self, named)

    @property
    def parts(self) -> EngineParts:
        """What this engine is built of, its capabilities included; for trusted tooling."""
        return replace(self._parts, capabilities=self._registry.composed())

    @staticmethod
    def of(parts: EngineParts) -> Engine[Any]:
        """Build a new engine of another one's parts; handles of their capabilities belong to it.

        Raises:
            ConfigurationError: As the constructor.
        """
        engine = Engine[Any](
            parts.name,
            version=parts.version,
            deps_type=parts.deps_type,
            deps=parts.deps,
            surfaces=parts.surfaces,
            **parts.options(),
        )
        engine._enrolment.adopt(parts.capabilities)
        return engine

    def catalog(self) -> tuple[CapabilitySummary, ...]:
        """Return every capability in one line each; for trusted tooling."""
        return tuple(summary(each.view) for each in self._registry.enrolled())

    def describe(self, id: str | Capability[..., Any]) -> CapabilityDescription:
        """Return everything about one capability, its plan included; for trusted tooling.

        Raises:
            CapabilityError: CAPABILITY_NOT_FOUND.
        """
        found = self._registry.get(id)
        groups = (*self._runtime.policies, *found.definition.policies)
        names = tuple(member.name for each in groups for member in flatten(each))
        return description(found.view, self._registry.plan_of(found.view.id), names)

    def blocking(self) -> AbstractContextManager[BlockingEngine[DepsT]]:
        """Return a context manager for synchronous callers: the same methods without await.

        Raises:
            RuntimeError: On entering it inside a running event loop.
        """
        return blocking(self)

    async def __aenter__(self) -> Self:
        """Open the store and start the background work; nothing is registered any more.

        Raises:
            RuntimeError: The engine has been entered or closed before.
            Exception: Whatever opening the store raised.
        """
        if self._background is not None or self._live.closing:
            raise RuntimeError(f"engine {self.name!r} has been entered already")
        await open_store(self._parts.settings.store)
        self._enrolment.closed = True
        self._background = Background()
        await self._background.start(partial(keep_house, self._auditor, self._runtime))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the engine, at once where the block was left by an error; see `aclose`."""
        try:
            with anyio.CancelScope(shield=True):
                await self.aclose(grace=10.0 if raised is None else 0.0)
        finally:
            if self._background is not None:
                await self._background.stop()

    async def aclose(self, *, grace: float = 10.0) -> DrainReport:
        """Refuse new calls, wait, cancel, drain the audit, close the store.

        Args:
            grace: Seconds that calls under way may go on before they are cancelled.

        Returns:
            The executions that ended meanwhile, and those whose effect is unknown.
        """
        self._live.closing = True
        report = await self._live.drain(grace, self._runtime.cleanup_grace)
        self.drained = self.drained or report
        await self._auditor.drain(self._auditor.timeout)
        await close_store(self._parts.settings.store)
        return report

    def __repr__(self) -> str:
        return f"Engine({self.name!r}, version={self.version!r})"
