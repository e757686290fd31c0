"""Discovery: which capabilities a caller may see on a surface. The walk itself is in `walk.py`."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from capgate.call import Call, Claim, Overrun, Request, attach, bounded, to_seconds
from capgate.engine.calling import check
from capgate.engine.walk import Candidate, Catalogue, Walk
from capgate.errors import CapabilityError, ErrorCode, FailureStage, stamp
from capgate.pipeline import capture_claimed, frozen, identify
from capgate.policies import PolicyBatch, in_phase

if TYPE_CHECKING:
    from capgate.capability import CapabilityView
    from capgate.engine.dependencies import Dependencies
    from capgate.errors import JSON
    from capgate.pipeline import Enrolled, Runtime


@dataclass(frozen=True, slots=True)
class DiscoveryScope:
    """Narrows a discovery walk; it is no authority and never widens.

    Args:
        tags: Capabilities with any of these; None does not narrow, an empty one matches none.
        ids: Capabilities with exactly these ids, in union with `tags`.

    Raises:
        TypeError: Not collections of str.
    """

    tags: Collection[str] | None = None
    ids: Collection[str] | None = None

    def __post_init__(self) -> None:
        """Capture both as sets."""
        for name in ("tags", "ids"):
            given: object = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, _names(name, given))

    def admits(self, capability: CapabilityView) -> bool:
        """Tell whether a capability is in the scope."""
        if self.tags is None and self.ids is None:
            return True
        return capability.id in (self.ids or ()) or not capability.tags.isdisjoint(self.tags or ())


def _names(what: str, given: object) -> frozenset[str]:
    if isinstance(given, str) or not isinstance(given, Collection):
        raise TypeError(f"DiscoveryScope.{what} must be a collection of str")
    names = cast("Collection[object]", given)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"DiscoveryScope.{what} must be a collection of str")
    return frozenset(cast("Collection[str]", names))


@dataclass(frozen=True, slots=True)
class CapabilityDescriptor:
    """What a caller may know of one capability."""

    id: str
    title: str | None
    description: str
    input_schema: Mapping[str, JSON]
    output_schema: Mapping[str, JSON] | None
    side_effect: str
    risk: str
    tags: frozenset[str]
    requires_approval: bool

    def to_dict(self) -> dict[str, JSON]:
        """Return the descriptor as JSON data."""
        return {
            "id": self.id,
            "title": self.title,
            "description": self.description,
            "input_schema": self.input_schema,
            "output_schema": self.output_schema,
            "side_effect": self.side_effect,
            "risk": self.risk,
            "tags": sorted(self.tags),
            "requires_approval": self.requires_approval,
        }


def _candidate(capability: Enrolled, runtime: Runtime) -> Candidate:
    policies = in_phase("discovery", runtime.policies, capability.definition.policies)
    seconds = runtime.policy_timeout
    return Candidate(
        capability.view,
        PolicyBatch(policies, "discovery", seconds=seconds, clock=runtime.clock),
        _descriptor(capability.view, gated=capability.view.requires_approval),
        _descriptor(capability.view, gated=True),
    )


def _descriptor(view: CapabilityView, *, gated: bool) -> CapabilityDescriptor:
    return CapabilityDescriptor(
        id=view.id,
        title=view.title,
        description=view.description,
        input_schema=view.input_schema,
        output_schema=view.output_schema,
        side_effect=view.side_effect,
        risk=view.risk,
        tags=view.tags,
        requires_approval=gated,
    )


class Discoverer:
    """Walks the capabilities of one engine."""

    __slots__ = ("_candidates", "_catalogues", "_dependencies", "_runtime", "_seconds")

    def __init__(self, runtime: Runtime, dependencies: Dependencies) -> None:
        """Bind to the engine's parts."""
        self._runtime = runtime
        self._dependencies = dependencies
        self._seconds = to_seconds(runtime.limits.discovery_timeout, "discovery_timeout")
        self._candidates: dict[str, list[Candidate]] = {}
        self._catalogues: dict[str, Catalogue] = {}

    def add(self, capability: Enrolled) -> None:
        """Take up a capability that has been registered."""
        candidate = _candidate(capability, self._runtime)
        for surface in capability.view.expose:
            self._candidates.setdefault(surface, []).append(candidate)
            self._catalogues.pop(surface, None)

    async def walk(
        self, surface: str, claim: Claim, request: Request, scope: object
    ) -> list[CapabilityDescriptor]:
        """Return the descriptors of what the caller may see.

        Raises:
            CapabilityError: TIMEOUT at stage discovery; never a short list. UNAUTHENTICATED when
                credentials are refused; INTERNAL_ERROR when they, or the dependencies, cannot be
                had.
            TypeError: An argument that no walk can have.
        """
        known = self._runtime.authenticate is not None
        surface = check(request, surface, actor=claim[1], authenticator=known)
        if scope is not None and not isinstance(scope, DiscoveryScope):
            raise TypeError(f"scope must be a DiscoveryScope, got {type(scope).__name__}")
        call = self._call(surface, claim, request)
        await self._identify(call)
        walk = Walk(call, self._catalogue(surface, scope), self._runtime)
        await self._judge(call, walk)
        if walk.surprised:
            self._catalogues.pop(surface, None)
        found = walk.found()
        await self._tell(call, found, walk.broken)
        return found

    def _call(self, surface: str, claim: Claim, request: Request) -> Call:
        call = Call()
        call.surface = surface
        call.request = request
        attach(call)
        call.execution_id = call.correlation_id = self._runtime.new_execution_id()
        _, actor, deps = claim
        call.deps = self._dependencies.of(deps)
        if actor is not None:
            capture_claimed(call, actor)
        return call

    def _catalogue(self, surface: str, scope: DiscoveryScope | None) -> Catalogue:
        if scope is not None:
            candidates = self._candidates.get(surface, ())
            return Catalogue.of([each for each in candidates if scope.admits(each.view)])
        known = self._catalogues.get(surface)
        if known is None:
            known = Catalogue.of(self._candidates.get(surface, ()))
            if known.candidates:
                self._catalogues[surface] = known
        return known

    async def _identify(self, call: Call) -> None:
        pending = identify(call, self._runtime)
        if pending is not None:
            await pending
        error = call.identity_error
        if isinstance(error, CapabilityError):
            raise self._failed(call, error)
        if error is not None:
            raise self._failed(call, CapabilityError(ErrorCode.UNAUTHENTICATED), error)

    async def _judge(self, call: Call, walk: Walk) -> None:
        """Ask the policies, within the dependencies and the time of the whole walk."""
        if not walk.judged:
            self._dependencies.forget(call)
        made = await self._dependencies.make(call)
        try:
            if made.broken is not None:
                raise self._unready(call, made.broken)
            if not walk.go(self._seconds):
                raise self._failed(call, _late())
            if walk.unfinished():
                left = self._seconds - call.watch.now() + call.started_at
                await bounded(walk.rest(), max(left, 1e-9))
        except Overrun as error:
            raise self._failed(call, _late(), error) from error
        finally:
            await self._dependencies.leave(call, made)

    def _unready(self, call: Call, broken: BaseException) -> BaseException:
        """Return what a walk raises whose dependencies cannot be made."""
        if not isinstance(broken, Exception):
            return broken
        error = CapabilityError(ErrorCode.INTERNAL_ERROR, stage=FailureStage.DISCOVERY)
        return self._failed(call, error, broken)

    def _failed(
        self, call: Call, error: CapabilityError, cause: BaseException | None = None
    ) -> CapabilityError:
        """Return the failure of a walk, told where private failures are told."""
        if cause is not None:
            error.__cause__ = cause
        failure = stamp(error, execution_id=call.execution_id)
        if not failure.exposed:
            self._runtime.report(failure)
        return failure

    async def _tell(
        self,
        call: Call,
        found: list[CapabilityDescriptor],
        broken: list[tuple[str, str, BaseException]],
    ) -> None:
        # One report for each policy: what is wrong with it is wrong with every capability.
        for raised in {name: raised for _, name, raised in reversed(broken)}.values():
            self._failed(call, CapabilityError(ErrorCode.POLICY_FAILED), raised)
        evidence = self._runtime.evidence
        if not evidence.active:
            return
        data: dict[str, JSON] = {
            "count": len(found),
            "surface": call.surface,
            "digest": _digest(tuple(each.id for each in found)),
            "errors": tuple(frozen(capability=id_, policy=name) for id_, name, _ in broken),
        }
        if self._runtime.verbose:
            data["ids"] = tuple(sorted(each.id for each in found))
        noted = evidence.note("capabilities.discovered", call, frozen(**data))
        if noted is not None:
            await call.watch.shielded(noted)


@lru_cache(maxsize=64)
def _digest(ids: tuple[str, ...]) -> str:
    """Return the digest of a list; callers mostly see one of a few."""
    return hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()


def _late() -> CapabilityError:
    return CapabilityError(ErrorCode.TIMEOUT, stage=FailureStage.DISCOVERY)
