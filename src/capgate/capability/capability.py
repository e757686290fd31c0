"""A declared capability: the record, the read-only view of it, and the typed handle.

Values only. How one is declared is in `decorator`, how several are put together in `compose`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Generic, Never, ParamSpec, TypeVar

from capgate.capability.canonical import input_hash
from capgate.capability.declarations import (
    Access,
    ApprovalRule,
    PermissionRule,
    Redact,
    Retry,
    Risk,
    SideEffect,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from capgate.capability.contract import Contract
    from capgate.capability.policy import Policy
    from capgate.capability.signature import Handler
    from capgate.errors import JSON, DomainError

P = ParamSpec("P")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CapabilityView:
    """What stages, policies and tooling may know of a capability; deep-frozen.

    Args:
        id: The id by which this engine knows it.
        requires_approval: Every call of it needs an approval.
    """

    id: str
    title: str | None
    description: str
    side_effect: SideEffect
    risk: Risk
    tags: frozenset[str]
    expose: frozenset[str]
    access: Access
    idempotent: bool
    timeout: float | None
    retry: Retry | None
    approval: ApprovalRule | None
    requires_approval: bool
    annotations: Mapping[str, JSON]
    adapters: Mapping[str, JSON]
    input_schema: Mapping[str, JSON]
    output_schema: Mapping[str, JSON]
    _fingerprint: Callable[[], str] = field(repr=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of what an approval relies on."""
        return self._fingerprint()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Definition:
    """Everything declared about one capability, captured once.

    Args:
        id: The id it is known by; another one after `renamed`.
        context: The name of the handler's context parameter, if it has one.
        is_async: Calling the handler gives an awaitable.
        timeout: Seconds for one attempt; None: the engine's.
        policies: The capability's own, in order; groups are not flattened.
    """

    id: str
    handler: Handler
    contract: Contract
    context: str | None
    is_async: bool
    title: str | None
    description: str
    side_effect: SideEffect
    risk: Risk
    expose: frozenset[str]
    access: Access
    timeout: float | None
    retry: Retry | None
    idempotent: bool
    max_concurrency: int | None
    approval: ApprovalRule | None
    redact: Redact[object] | None
    policies: tuple[Policy, ...]
    errors: tuple[type[DomainError], ...]
    tags: frozenset[str]
    annotations: Mapping[str, JSON]
    adapters: Mapping[str, JSON]
    # Hashing schemas takes longer than making them: done once, when an approval or tooling asks.
    _memo: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def fingerprint(self) -> str:
        """SHA-256, in hex, of what an approval of this capability relies on.

        That is its schemas, side effect, risk, the names of its policies and its approval rule.
        """
        known = self._memo.get("fingerprint")
        if known is None:
            known = self._memo["fingerprint"] = input_hash(_relied_on(self))
        return known

    def renamed(self, capability_id: str) -> Definition:
        """Return the same capability under another id."""
        return self if capability_id == self.id else replace(self, id=capability_id)

    def with_depth(self, max_depth: int) -> Definition:
        """Return the same capability with another limit on nesting."""
        contract = self.contract.with_depth(max_depth)
        return self if contract is self.contract else replace(self, contract=contract)

    def view(self) -> CapabilityView:
        """Return what others may know."""
        return CapabilityView(
            id=self.id,
            title=self.title,
            description=self.description,
            side_effect=self.side_effect,
            risk=self.risk,
            tags=self.tags,
            expose=self.expose,
            access=self.access,
            idempotent=self.idempotent,
            timeout=self.timeout,
            retry=self.retry,
            approval=self.approval,
            requires_approval=self.approval is not None,
            annotations=self.annotations,
            adapters=self.adapters,
            input_schema=self.contract.input_schema,
            output_schema=self.contract.output_schema,
            _fingerprint=lambda: self.fingerprint,
        )


class Capability(Generic[P, Out]):
    """The handle of a declared capability; its type carries the handler's parameters and result.

    It cannot be called: calls go through an engine. For unit tests, `handler` is the function.
    """

    __slots__ = ("definition", "handler", "id")

    definition: Definition
    handler: Handler
    id: str

    def __init__(self, definition: Definition) -> None:
        """Wrap what was declared."""
        put = object.__setattr__
        put(self, "definition", definition)
        put(self, "handler", definition.handler)
        put(self, "id", definition.id)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Capability is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Capability is immutable: cannot delete {name!r}")

    def __call__(self, *_args: P.args, **_kwargs: P.kwargs) -> Never:
        """Refuse: a direct call would pass no stage.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            f"{self.id!r} is a capability: call it with engine.invoke(…), "
            "or call .handler(…) to test the plain function"
        )

    def __repr__(self) -> str:
        return f"Capability({self.id!r})"


def _relied_on(definition: Definition) -> JSON:
    return {
        "input_schema": definition.contract.input_schema,
        "output_schema": definition.contract.output_schema,
        "side_effect": definition.side_effect,
        "risk": definition.risk,
        "policies": _policy_names(definition.policies),
        "approval": _approval_facts(definition.approval),
    }


def _policy_names(policies: tuple[Policy, ...]) -> list[JSON]:
    return [
        {"name": each.name, "members": _policy_names(each.members)} if each.members else each.name
        for each in policies
    ]


def _approval_facts(rule: ApprovalRule | None) -> JSON:
    if rule is None:
        return None
    return {
        "type": rule.type,
        "reason": rule.reason,
        "expires_in": rule.expires_in,
        "approvers": _rule_name(rule.approvers),
        "allow_self": rule.allow_self,
        "quorum": rule.quorum,
    }


def _rule_name(rule: object) -> JSON:
    if rule is None:
        return None
    if isinstance(rule, PermissionRule):
        return {"requires": sorted(rule.permissions)}
    module, name = getattr(rule, "__module__", ""), getattr(rule, "__qualname__", "")
    return {"rule": f"{module}:{name or type(rule).__qualname__}"}
