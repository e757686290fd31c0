"""The discovery walk: which capabilities a caller may see on a surface, in order of registration."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from capgate.call import Call, Overrun, Request, bounded, current_watch, to_seconds
from capgate.errors import CapabilityError, ErrorCode, FailureStage, stamp
from capgate.pipeline import capture_claimed, frozen, identify
from capgate.policies import PolicyBatch, Ruling, Verdict, in_phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from capgate.errors import JSON
    from capgate.pipeline import Enrolled, Runtime


@dataclass(frozen=True, slots=True)
class DiscoveryScope:
    """Narrows a discovery walk; it is no authority and never widens.

    Args:
        tags: Capabilities with any of these; None does not narrow, an empty collection matches none.
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

    def admits(self, id_: str, tags: frozenset[str]) -> bool:
        """Tell whether a capability is in the scope."""
        if self.tags is None and self.ids is None:
            return True
        return id_ in (self.ids or ()) or not tags.isdisjoint(self.tags or ())


def _names(what: str, given: object) -> frozenset[str]:
    if isinstance(given, str) or not isinstance(given, Collection):
        raise TypeError(f"DiscoveryScope.{what} must be a collection of str")
    names = frozenset(given)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"DiscoveryScope.{what} must be a collection of str")
    return names


@dataclass(frozen=True, slots=True)
class CapabilityDescriptor:
    """What a caller may know of one capability."""

    id: str
    title: str
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


class _Candidate:
    """One capability with both of its descriptors and its policies, made at registration."""

    __slots__ = ("batch", "gated", "plain", "view")

    def __init__(self, capability: Enrolled, runtime: Runtime) -> None:
        self.view = capability.view
        policies = in_phase("discovery", runtime.policies, capability.definition.policies)
        self.batch = PolicyBatch(
            policies, "discovery", seconds=runtime.policy_timeout, clock=runtime.clock
        )
        self.plain = _descriptor(capability, gated=self.view.requires_approval)
        self.gated = _descriptor(capability, gated=True)


def _descriptor(capability: Enrolled, *, gated: bool) -> CapabilityDescriptor:
    view = capability.view
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

    __slots__ = ("_candidates", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        """Bind to the engine's parts."""
        self._runtime = runtime
        self._candidates: dict[str, list[_Candidate]] = {}

    def add(self, capability: Enrolled) -> None:
        """Take up a capability that has been registered."""
        candidate = _Candidate(capability, self._runtime)
        for surface in capability.view.expose:
            self._candidates.setdefault(surface, []).append(candidate)

    async def walk(
        self, surface: str, request: Request, scope: DiscoveryScope | None
    ) -> list[CapabilityDescriptor]:
        """Return the descriptors of what the caller may see.

        Raises:
            CapabilityError: TIMEOUT at stage discovery; never a short list. UNAUTHENTICATED when
                credentials are refused.
        """
        call = self._call(surface, request)
        wanted = self._candidates.get(surface, ())
        if scope is not None:
            wanted = [each for each in wanted if scope.admits(each.view.id, each.view.tags)]
        seconds = to_seconds(self._runtime.limits.discovery_timeout, "discovery_timeout")
        walk = _Walk(call, wanted, self._runtime.limits.policy_concurrency)
        try:
            await self._identify(call)
            if not walk.sync():
                await bounded(walk.rest(), max(seconds - call.watch.now() + call.started_at, 1e-9))
        except Overrun as error:
            raise _late(call) from error
        if call.watch.now() - call.started_at > seconds:
            raise _late(call)
        found = walk.found()
        await self._tell(call, found, walk.broken)
        return found

    def _call(self, surface: str, request: Request) -> Call:
        call = Call()
        call.capability_id = ""
        call.surface = surface
        call.request = request
        call.watch = current_watch()
        call.started_at = call.watch.now()
        call.task = call.watch.task()
        call.baseline = call.watch.baseline(call.task)
        call.execution_id = call.correlation_id = self._runtime.new_execution_id()
        call.deps = request.deps
        if request.actor is not None:
            capture_claimed(call)
        return call

    async def _identify(self, call: Call) -> None:
        pending = identify(call, self._runtime)
        if pending is not None:
            await pending
        if isinstance(call.identity_error, CapabilityError):
            raise stamp(call.identity_error, execution_id=call.execution_id)
        if call.identity_error is not None:
            raise CapabilityError(ErrorCode.UNAUTHENTICATED) from call.identity_error

    async def _tell(
        self, call: Call, found: list[CapabilityDescriptor], broken: Iterable[tuple[str, str]]
    ) -> None:
        evidence = self._runtime.evidence
        if not evidence.active:
            return
        ids = sorted(each.id for each in found)
        data: dict[str, JSON] = {
            "count": len(ids),
            "surface": call.surface,
            "digest": hashlib.sha256("\n".join(ids).encode()).hexdigest(),
            "errors": tuple(frozen(capability=id_, policy=name) for id_, name in broken),
        }
        if self._runtime.verbose:
            data["ids"] = tuple(ids)
        noted = evidence.note("capabilities.discovered", call, frozen(**data))
        if noted is not None:
            await call.watch.shielded(noted)


def _late(call: Call) -> CapabilityError:
    error = CapabilityError(ErrorCode.TIMEOUT, stage=FailureStage.DISCOVERY)
    return stamp(error, execution_id=call.execution_id)


class _Walk:
    """One walk: sync policies in one go, async ones several at a time."""

    def __init__(self, call: Call, candidates: Iterable[_Candidate], concurrency: int) -> None:
        self._call = call
        self._candidates = tuple(candidates)
        self._concurrency = concurrency
        self._found: list[CapabilityDescriptor | None] = [None] * len(self._candidates)
        self._waiting: list[tuple[int, Awaitable[Ruling]]] = []
        self.broken: list[tuple[str, str]] = []

    def sync(self) -> bool:
        """Ask every policy; returns whether all have answered."""
        for index, candidate in enumerate(self._candidates):
            if not candidate.batch:
                self._found[index] = candidate.plain
                continue
            ruling = candidate.batch.rule(self._call, candidate.view)
            if isinstance(ruling, Ruling):
                self._take(index, ruling)
            else:
                self._waiting.append((index, ruling))
        return not self._waiting

    async def rest(self) -> None:
        """Wait for the policies that have not answered."""
        limiter = anyio.CapacityLimiter(self._concurrency)

        async def ask(index: int, pending: Awaitable[Ruling]) -> None:
            async with limiter:
                self._take(index, await pending)

        async with anyio.create_task_group() as group:
            for index, pending in self._waiting:
                group.start_soon(ask, index, pending)

    def _take(self, index: int, ruling: Ruling) -> None:
        candidate = self._candidates[index]
        self.broken += [(candidate.view.id, name) for name, _ in ruling.broken]
        if ruling.verdict is Verdict.ALLOW:
            self._found[index] = candidate.plain
        elif ruling.verdict is Verdict.REQUIRE_APPROVAL:
            self._found[index] = candidate.gated

    def found(self) -> list[CapabilityDescriptor]:
        return [each for each in self._found if each is not None]
