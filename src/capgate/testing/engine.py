"""The engine of a test: a real one, with time, ids, audit, stores and chosen handlers faked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from capgate.audit import AuditConfig
from capgate.call import Actor
from capgate.engine import Engine, EngineParts, UnsafeWarning
from capgate.idempotency import MemoryIdempotency
from capgate.testing.actors import fake_actor
from capgate.testing.automatic import AutoRules, approvals_for
from capgate.testing.calls import FilledCalls
from capgate.testing.captured import CapturedAudit
from capgate.testing.clock import FakeClock
from capgate.testing.overrides import overridden
from capgate.testing.probe import ApprovalProbe

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from capgate.capability import Handler, Library, Policy
    from capgate.testing.automatic import Approving, AutoAnswer

NewId: TypeAlias = Callable[[], str]


class TestEngine(FilledCalls):
    """A real engine for tests: every stage runs, nothing leaves the process by itself.

    It is built from the application's engine, which stays as it was: its settings, policies,
    authenticator, pipeline and capabilities are kept, handles included. Replaced are the clock,
    the ids (`exe_1`, `apr_2`, …), the audit sinks, the stores and the pauses between retries.
    Capabilities that the application registers later are not seen.

    Args:
        engine: The application's engine. Or instead:
        libraries: Libraries for a new engine.
        policies: More policies, after the engine's own.
        actor: Who calls where a call names nobody; `fake_actor()` when None.
        deps: Dependencies, as a value, of calls that bring none; None for the engine's own.
        overrides: Stand-ins for handlers by id, sync or async, with the handler's input
            parameters, with or without its context. Contracts and all else stay.
        approvals: A store or an `ApprovalConfig`; None for a new store in memory.
            `auto-approve` and `auto-reject` answer every request at once, by users that the
            engine admits whatever the approver rules say (a nested call that needs several
            approvers still suspends). Test the rules through `approvals.approve(id, by=…)`.
        clock: Wall time; one that starts in 2026 when None.
        audit: Where events are kept; a new one when None.
        new_id: Makes ids; counts from 1 when None. Engines that share a store must share it.

    Raises:
        TypeError: An argument of the wrong type, or an engine beside libraries.
        ConfigurationError: An unknown override, or what `Engine` refuses.
    """

    __test__: ClassVar[bool] = False

    engine: Engine[Any]
    actor: Actor
    deps: Any
    audit: CapturedAudit
    approvals: ApprovalProbe
    clock: FakeClock

    def __init__(
        self,
        engine: Engine[Any] | None = None,
        *,
        libraries: Sequence[Library] = (),
        policies: Sequence[Policy] = (),
        actor: Actor | None = None,
        deps: Any = None,
        overrides: Mapping[str, Handler] | None = None,
        approvals: Approving | None = None,
        clock: FakeClock | None = None,
        audit: CapturedAudit | None = None,
        new_id: NewId | None = None,
    ) -> None:
        """See the class."""
        own = _parts(engine, libraries, policies)
        self.actor = _checked("actor", actor, Actor, fake_actor)
        self.deps = deps
        self.clock = _checked("clock", clock, FakeClock, FakeClock)
        self.audit = _checked("audit", audit, CapturedAudit, CapturedAudit)
        stand_ins: Mapping[str, Handler] = _checked("overrides", overrides, Mapping, dict)
        parts, self._auto = _faked(own, approvals, self.clock, self.audit, new_id or counting_ids())
        capabilities = overridden(parts.capabilities, stand_ins)
        with warnings.catch_warnings():
            # Of a durable store: a test's requester is as stored, and nobody else.
            warnings.simplefilter("ignore", UnsafeWarning)
            self.engine = Engine.of(replace(parts, capabilities=capabilities))
        self.approvals = ApprovalProbe(self.engine.approvals)

    async def __aenter__(self) -> Self:
        """Enter the engine."""
        await self.engine.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the engine."""
        await self.engine.__aexit__(kind, raised, traceback)

    def __repr__(self) -> str:
        return f"TestEngine({self.engine.name!r})"


def counting_ids() -> NewId:
    """Return a maker of ids that counts from 1."""
    numbers = count(1)
    return lambda: str(next(numbers))


def _parts(engine: object, libraries: Sequence[Library], policies: Sequence[Policy]) -> EngineParts:
    if engine is None:
        return Engine("test", libraries=libraries, policies=policies).parts
    if not isinstance(engine, Engine):
        raise TypeError(f"engine must be an Engine, got {type(engine).__name__}")
    if libraries:
        raise TypeError("pass an engine, or libraries for a new one, not both")
    own = engine.parts
    both = (*own.settings.policies, *policies)
    return replace(own, settings=replace(own.settings, policies=both))


def _faked(
    own: EngineParts,
    approvals: Approving | None,
    clock: FakeClock,
    audit: CapturedAudit,
    new_id: NewId,
) -> tuple[EngineParts, AutoAnswer | None]:
    given = own.settings
    kept = AuditConfig.of(given.audit)
    config, auto = approvals_for(given.approvals, approvals)
    settings = replace(
        given,
        store=None,
        approvals=config,
        rulebook=None if auto is None else AutoRules(),
        idempotency=MemoryIdempotency(),
        audit=AuditConfig(
            audit, strict=kept.strict, verbose=kept.verbose, hash_inputs=kept.hash_inputs
        ),
        clock=clock,
        new_id=new_id,
        jitter=lambda: 0.0,
    )
    return replace(own, settings=settings), auto


def _checked(name: str, given: Any, kind: Any, default: Callable[[], Any]) -> Any:
    if given is None:
        return default()
    if not isinstance(given, kind):
        raise TypeError(f"{name} must be of type {kind.__name__}, got {type(given).__name__}")
    return given
