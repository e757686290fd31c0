"""What trusted tooling may read of an engine: its capabilities and their plans, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from capgate.capability import CapabilityView
    from capgate.errors import JSON
    from capgate.pipeline import Plan


@dataclass(frozen=True, slots=True)
class CapabilitySummary:
    """One line of the catalogue."""

    id: str
    title: str | None
    description: str
    side_effect: str
    risk: str
    tags: frozenset[str]
    expose: frozenset[str]
    requires_approval: bool


@dataclass(frozen=True, slots=True)
class CapabilityDescription:
    """Everything an engine knows about one capability.

    `plan` has one mapping per stage, in order: its name, whether it runs, and what it does or why
    it is skipped. `fingerprint` changes with the contract.
    """

    id: str
    title: str | None
    description: str
    side_effect: str
    risk: str
    tags: frozenset[str]
    expose: frozenset[str]
    requires_approval: bool
    idempotent: bool
    input_schema: Mapping[str, JSON]
    output_schema: Mapping[str, JSON] | None
    annotations: Mapping[str, JSON]
    adapters: Mapping[str, JSON]
    policies: tuple[str, ...]
    fingerprint: str
    plan: tuple[Mapping[str, JSON], ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What would become of a call: `verdict` is `would-execute`, `approval-required` or `refused`.

    `stages` has one `(stage, verdict, detail)` for each stage that ran. Trusted tooling only: it
    tells concealed truths.
    """

    verdict: str
    stages: tuple[tuple[str, str, str | None], ...]


def summary(view: CapabilityView) -> CapabilitySummary:
    """Return the catalogue's line."""
    return CapabilitySummary(
        view.id,
        view.title,
        view.description,
        view.side_effect,
        view.risk,
        view.tags,
        view.expose,
        view.requires_approval,
    )


def description(
    view: CapabilityView, plan: Plan, policies: tuple[str, ...]
) -> CapabilityDescription:
    """Return all there is to know."""
    return CapabilityDescription(
        id=view.id,
        title=view.title,
        description=view.description,
        side_effect=view.side_effect,
        risk=view.risk,
        tags=view.tags,
        expose=view.expose,
        requires_approval=view.requires_approval,
        idempotent=view.idempotent,
        input_schema=view.input_schema,
        output_schema=view.output_schema,
        annotations=view.annotations,
        adapters=view.adapters,
        policies=policies,
        fingerprint=view.fingerprint,
        plan=plan.described,
    )


def explanation(stages: list[tuple[str, str, str | None]]) -> Explanation:
    """Return the verdict over the stages that ran."""
    last = stages[-1][1] if stages else "passed"
    return Explanation("would-execute" if last == "passed" else last, tuple(stages))
