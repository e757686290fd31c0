"""Declaring policies: the decorator and how several become one. Evaluation is next door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from capgate.capability import Policy
from capgate.errors import ConfigurationError, Issue

if TYPE_CHECKING:
    from capgate.policies.decision import Decision
    from capgate.policies.request import PolicyRequest

PolicyFunction: TypeAlias = "Callable[[PolicyRequest[Any]], Decision | Awaitable[Decision]]"

PHASES: Final = frozenset({"discovery", "invocation", "execution"})


def policy(
    name: str, *, phases: Collection[str] = frozenset({"invocation"})
) -> Callable[[PolicyFunction], Policy]:
    """Declare a function of a `PolicyRequest` as a policy.

    Args:
        name: Unique among the policies that judge one capability; the audit records it.
        phases: When it runs: `discovery` (without input), `invocation`, `execution`.

    Raises:
        ConfigurationError: The name is blank, or a phase is missing or unknown.
    """
    issues = _name_issues(name) + _phase_issues(name, phases)
    if issues:
        raise ConfigurationError(issues)
    wanted = frozenset(phases)

    def declare(function: PolicyFunction) -> Policy:
        if not callable(function):
            raise ConfigurationError(
                [Issue("POLICY_INVALID", f"policy {name!r} must decorate a function", name)]
            )
        return Policy(name=name, phases=wanted, evaluate=function)

    return declare


def combine(name: str, *policies: Policy) -> Policy:
    """Group policies under one name; all are evaluated and recorded one by one.

    Raises:
        ConfigurationError: A member is no policy, a name stands twice, or there is no member.
    """
    issues = _name_issues(name)
    if not policies:
        issues.append(Issue("POLICY_INVALID", "a combined policy needs at least one member", name))
    members: list[Policy] = []
    for member in cast("Collection[object]", policies):
        if isinstance(member, Policy):
            members.extend(flatten(member))
        else:
            issues.append(Issue("POLICY_INVALID", "a member is not a policy: use @policy", name))
    issues += duplicate_names(members, name)
    if issues:
        raise ConfigurationError(issues)
    phases = frozenset[str]().union(*(member.phases for member in members))
    return Policy(name=name, phases=phases, evaluate=None, members=tuple(members))


def flatten(declared: Policy) -> tuple[Policy, ...]:
    """Return the policies that run: the members of a group, of groups in it too, or itself."""
    if not declared.members:
        return (declared,)
    return tuple(leaf for member in declared.members for leaf in flatten(member))


def duplicate_names(policies: Collection[Policy], where: str) -> list[Issue]:
    """Return one issue for each name that stands more than once."""
    seen: set[str] = set()
    issues: list[Issue] = []
    for declared in policies:
        if declared.name in seen:
            text = f"two policies are named {declared.name!r}: the audit could not tell them apart"
            issues.append(Issue("POLICY_DUPLICATE", text, where))
        seen.add(declared.name)
    return issues


def _name_issues(name: object) -> list[Issue]:
    if isinstance(name, str) and name.strip():
        return []
    return [Issue("POLICY_INVALID", "a policy needs a name that is not blank")]


def _phase_issues(name: object, phases: object) -> list[Issue]:
    where = name if isinstance(name, str) else ""
    if isinstance(phases, str) or not isinstance(phases, Collection):
        return [Issue("POLICY_INVALID", "phases must be a set of phase names", where)]
    if not phases:
        return [
            Issue("POLICY_INVALID", f"policy {where!r} has no phase: it would never run", where)
        ]
    named = cast("Collection[object]", phases)
    unknown = sorted(str(phase) for phase in named if phase not in PHASES)
    if unknown:
        text = f"unknown phase {', '.join(unknown)}; known: {', '.join(sorted(PHASES))}"
        return [Issue("POLICY_INVALID", text, where)]
    return []
