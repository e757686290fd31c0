"""Registering: what an engine refuses of capabilities that are each sound by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from capgate.capability import Capability, Composed, Include, compose, local, unknown_surfaces
from capgate.engine.checking import policy_issues, unenforced
from capgate.errors import CompositionError, ConfigurationError, Issue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from capgate.capability import Definition
    from capgate.engine.discover import Discoverer
    from capgate.engine.registry import Registry
    from capgate.pipeline import Pipeline, Runtime

_ENFORCED = (("authorization", "access"), ("approval", "approval"))


class Enrolment:
    """Adds capabilities to one engine, all of a batch or none."""

    __slots__ = ("_discoverer", "_pipeline", "_registry", "_runtime", "_surfaces", "closed")

    closed: bool

    def __init__(
        self,
        registry: Registry,
        discoverer: Discoverer,
        *,
        runtime: Runtime,
        pipeline: Pipeline,
        surfaces: frozenset[str],
    ) -> None:
        """Bind to the engine's parts."""
        self._registry = registry
        self._discoverer = discoverer
        self._runtime = runtime
        self._pipeline = pipeline
        self._surfaces = surfaces
        self.closed = False

    def declare(self, handle: Capability[..., Any]) -> None:
        """Add a capability declared on the engine itself."""
        self._add([local(handle)], [])

    def include(self, includes: Iterable[Include | object]) -> None:
        """Add what libraries offer.

        Raises:
            CompositionError: Collisions, unknown ids, invalid names: all at once.
            ConfigurationError: What the engine cannot enforce or does not know.
            RuntimeError: The engine has been entered.
        """
        self._add([], includes)

    def adopt(self, capabilities: Iterable[Composed]) -> None:
        """Add capabilities as another engine has them; refused as `include` does."""
        self._add(list(capabilities), [])

    def _add(self, handles: list[Composed], includes: Iterable[object]) -> None:
        if self.closed:
            raise RuntimeError("capabilities must be registered before the engine is entered")
        wanted = list(includes)
        try:
            fresh = compose(handles, wanted, known=self._registry.known).values()
        except CompositionError as error:
            raise CompositionError([*error.issues, *self._others(handles, wanted)]) from None
        issues = [issue for each in fresh for issue in self._issues(each.definition)]
        if issues:
            raise ConfigurationError(issues)
        for each in fresh:
            self._discoverer.add(self._registry.add(each))
            rule = each.definition.approval
            if rule is not None and rule.approvers is not None:
                self._runtime.rulebook.register(rule.approvers, owner=each.definition.id)

    def _others(self, handles: Iterable[Composed], includes: Iterable[object]) -> list[Issue]:
        """Return what else is wrong where capabilities do not fit together."""
        found = list(handles)
        for each in includes:
            try:
                found += compose([], [each]).values()
            except CompositionError:  # told already
                continue
        return [issue for each in found for issue in self._issues(each.definition)]

    def _issues(self, definition: Definition) -> list[Issue]:
        where = definition.id
        issues = [
            Issue(
                "SURFACE_UNKNOWN",
                f"surface {surface!r} is unknown: name it in Engine(surfaces=…)",
                where,
            )
            for surface in unknown_surfaces(definition, self._surfaces)
        ]
        both = (*self._runtime.policies, *definition.policies)
        issues += policy_issues(both, where) or unenforced(
            self._pipeline.removed, definition.policies, where
        )
        for stage, declared in _ENFORCED:
            if stage in self._pipeline.removed and _declares(definition, declared):
                text = f"declares {declared}, but the stage {stage!r} was removed"
                issues.append(Issue("CAPABILITY_NOT_ENFORCED", text, where))
        return issues


def _declares(definition: Definition, what: str) -> bool:
    return definition.access != "public" if what == "access" else definition.approval is not None
