"""The capabilities of one engine and their plans, made when they are registered.

A lookup is one dictionary access: what is unknown or not exposed has a plan too, one that refuses.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from capgate.capability import Capability, input_hash
from capgate.engine.texts import plain
from capgate.errors import CapabilityError, ErrorCode
from capgate.pipeline import Discovery, Enrolled, Plan, plan_for, plan_refusal, refuse_as
from capgate.policies import flatten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from capgate.capability import CapabilityView, Composed, Policy
    from capgate.pipeline import Pipeline, Runtime


_MAX_ID: Final = 128


class Registry:
    """Effective ids, handles and plans."""

    __slots__ = (
        "_composed",
        "_enrolled",
        "_handles",
        "_pipeline",
        "_plans",
        "_real",
        "_runtime",
        "_unexposed",
        "_unknown",
    )

    def __init__(self, pipeline: Pipeline, runtime: Runtime) -> None:
        """Start empty."""
        self._pipeline = pipeline
        self._runtime = runtime
        self._composed: dict[str, Composed] = {}
        self._enrolled: dict[str, Enrolled] = {}
        self._handles: dict[Capability[..., Any], list[str]] = {}
        self._plans: dict[tuple[str, object], tuple[str, Plan]] = {}
        self._real: dict[str, Plan] = {}
        self._unexposed: dict[str, Plan] = {}
        self._unknown = plan_refusal(refuse_as("unknown"), Discovery(), runtime)

    def add(self, composed: Composed) -> Enrolled:
        """Register one capability under its effective id, which is free."""
        definition = composed.definition.with_depth(self._runtime.limits.max_depth)
        enrolled = Enrolled(definition, _judged(definition.view(), self._runtime.policies))
        plan = plan_for(self._pipeline.stages, enrolled, self._runtime)
        self._composed[definition.id] = composed
        self._enrolled[definition.id] = enrolled
        self._handles.setdefault(composed.handle, []).append(definition.id)
        self._real[definition.id] = plan
        # By handle too, unless it stands for more than one capability here.
        alone = len(self._handles[composed.handle]) == 1
        for surface in definition.expose:
            self._plans[surface, definition.id] = (definition.id, plan)
            if alone:
                self._plans[surface, composed.handle] = (definition.id, plan)
        if not alone:
            self._forget(composed.handle)
        return enrolled

    def _forget(self, handle: Capability[..., Any]) -> None:
        for surface, key in [each for each in self._plans if each[1] is handle]:
            del self._plans[surface, key]

    def plan(self, capability: object, surface: str) -> tuple[str, Plan]:
        """Return the effective id and the plan of a call.

        Raises:
            TypeError: Neither an id nor a handle of this engine.
        """
        kind = type(capability)
        if kind is str or kind is Capability:
            found = self._plans.get((surface, capability))
            if found is not None:
                return found
        id_ = self._named(capability)
        found = self._plans.get((surface, id_))
        if found is not None:
            return found
        enrolled = self._enrolled.get(id_)
        # What nobody registered may be of any length: the audit keeps the beginning.
        return (_clipped(id_), self._unknown) if enrolled is None else self._refused(id_, enrolled)

    def _refused(self, id_: str, enrolled: Enrolled) -> tuple[str, Plan]:
        """Return the plan of a capability that is not exposed here, made at its first use."""
        plan = self._unexposed.get(id_)
        if plan is None:
            refuse = refuse_as("not-exposed")
            plan = plan_refusal(refuse, Discovery(), self._runtime, known=enrolled)
            self._unexposed[id_] = plan
        return id_, plan

    def _named(self, capability: object) -> str:
        named = plain(capability)
        return self.id_of(capability) if named is None else named

    def id_of(self, handle: object) -> str:
        """Return the id a handle is registered under.

        Raises:
            TypeError: Not a handle, of another engine, or registered more than once.
        """
        kind = type(handle)
        if not issubclass(kind, Capability):
            raise TypeError(f"capability must be an id or the handle of one, got {kind.__name__}")
        known = cast("Capability[..., Any]", handle)
        ids = self._handles.get(known, [])
        if not ids:
            raise TypeError(f"capability {known.id!r} does not belong to this engine")
        if len(ids) > 1:
            raise TypeError(f"handle is registered more than once: use an id of {sorted(ids)}")
        return ids[0]

    def get(self, capability: object) -> Enrolled:
        """Return a capability by id or handle.

        Raises:
            CapabilityError: CAPABILITY_NOT_FOUND.
        """
        found = self._enrolled.get(self._named(capability))
        if found is None:
            raise CapabilityError(ErrorCode.CAPABILITY_NOT_FOUND)
        return found

    def plan_of(self, id_: str) -> Plan:
        """Return the plan that an exposed call of a registered capability runs."""
        return self._real[id_]

    @property
    def known(self) -> Mapping[str, Composed]:
        """Every capability as it was composed, by effective id; read-only."""
        return MappingProxyType(self._composed)

    def composed(self) -> tuple[Composed, ...]:
        """Return every capability as it was composed, in order of registration."""
        return tuple(self._composed.values())

    def enrolled(self) -> tuple[Enrolled, ...]:
        """Return every capability, in order of registration."""
        return tuple(self._enrolled.values())


def _judged(view: CapabilityView, policies: Sequence[Policy]) -> CapabilityView:
    """Return a view whose fingerprint tells of the engine's own policies too."""
    if not policies:
        return view

    @cache
    def fingerprint() -> str:
        names = [each.name for declared in policies for each in flatten(declared)]
        return input_hash({"capability": view.fingerprint, "policies": names})

    return replace(view, _fingerprint=fingerprint)


def _clipped(id_: str) -> str:
    return id_ if len(id_) <= _MAX_ID else f"{id_[:_MAX_ID]}…"
