"""Checking what an engine is built with: every problem is found, and all are told at once."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from capgate.approvals import RuleBook
from capgate.call import Limits
from capgate.capability import Policy
from capgate.engine.options import EngineOptions
from capgate.engine.settings import approvals_of, audit_of
from capgate.errors import (
    ConfigurationError,
    DomainError,
    Forbidden,
    Issue,
    Unauthenticated,
)
from capgate.pipeline import Pipeline
from capgate.policies import PHASES, duplicate_names, flatten

if TYPE_CHECKING:
    from collections.abc import Iterable

    from capgate.engine.settings import Settings

# The stage that asks the policies of a phase; `Execution`, which asks the rest, cannot go.
_ASKED_BY: Final = {"discovery": "discovery", "invocation": "policy"}
_KEYS: Final = ("begin", "complete", "release", "suspend")
_PARTS: Final = ("approvals", "audit", "idempotency")


def check_engine(name: object, version: object, surfaces: object, deps_type: object) -> None:
    """Refuse what no engine can be called, nor have.

    Raises:
        ConfigurationError: Naming each.
    """
    issues = [
        _invalid(what, "must be a str that is not blank", value)
        for what, value in (("name", name), ("version", version))
        if not isinstance(value, str) or not value.strip()
    ]
    if isinstance(surfaces, str) or not isinstance(surfaces, Collection):
        issues.append(_invalid("surfaces", "must be a collection of names", surfaces))
    else:
        issues += [
            _invalid("surfaces", "must hold names that are not blank", each)
            for each in cast("Collection[object]", surfaces)
            if not isinstance(each, str) or not each.strip()
        ]
    if deps_type is not None and not _is_class(deps_type):
        issues.append(_invalid("deps_type", "must be a class for isinstance", deps_type))
    _refuse(issues)


def check_options(given: Mapping[str, object]) -> None:
    """Refuse an option that no engine has: a misspelt gate would be no gate.

    Raises:
        TypeError: Naming it and the options there are.
    """
    known = EngineOptions.__annotations__
    # A copy for tests also brings the rules of its own approvers; see `Engine.of`.
    seam = {"rulebook"} if isinstance(given.get("rulebook"), RuleBook | None) else set[str]()
    unknown = sorted(set(given) - set(known) - seam)
    if unknown:
        raise TypeError(
            f"Engine has no option {', '.join(unknown)}; it has: {', '.join(sorted(known))}"
        )


def _is_class(kind: object) -> bool:
    try:
        return isinstance(kind, type) and isinstance(None, kind) in {True, False}
    except TypeError:  # a protocol that cannot be checked at run time, an alias
        return False


def check_settings(settings: Settings) -> None:
    """Refuse settings of the wrong kind, and those that no stage of the pipeline enforces.

    Raises:
        ConfigurationError: With every problem found.
    """
    issues = _policies(settings.policies)
    issues += _exceptions(settings.exceptions)
    issues += _kinds(settings)
    issues += _stores(settings)
    if not issues and settings.pipeline is not None:
        issues += unenforced(settings.pipeline.removed, settings.policies, "policies")
        if settings.authorize is not None and "authorization" in settings.pipeline.removed:
            issues.append(_lost("authorize", "authorization"))
    _refuse(issues)


def unenforced(removed: Collection[str], policies: Iterable[Policy], where: str) -> list[Issue]:
    """Return one issue for each stage that is gone although policies are asked by it."""
    phases = frozenset[str]().union(*(each.phases for each in policies))
    return [
        _lost(where, stage, f"{phase} policies")
        for phase, stage in _ASKED_BY.items()
        if phase in phases and stage in removed
    ]


def _lost(where: str, stage: str, what: str = "") -> Issue:
    text = f"{what or where} would never be asked: the stage {stage!r} was removed"
    return Issue("NOT_ENFORCED", text, where)


def policy_issues(policies: Sequence[Policy], where: str) -> list[Issue]:
    """Return what is wrong with policies that judge together."""
    issues = [
        Issue("POLICY_INVALID", f"policy {each.name!r} {problem}", where)
        for each in policies
        if (problem := _problem(each)) is not None
    ]
    return issues or duplicate_names([one for each in policies for one in flatten(each)], where)


def _problem(declared: Policy) -> str | None:
    """Return what is wrong with a policy that was put together without `@policy`."""
    if not all(_is(each, Policy) for each in declared.members):
        return "has a member that is no policy"
    if type(declared.phases) is not frozenset or declared.phases - PHASES:
        return f"needs phases out of {', '.join(sorted(PHASES))}"
    if not declared.phases:
        return "has no phase: it would never run"
    if not declared.members and not callable(declared.evaluate):
        return "has no function"
    return next(filter(None, map(_problem, declared.members)), None)


def _policies(policies: object) -> list[Issue]:
    if isinstance(policies, Policy) or not isinstance(policies, Sequence):
        return [_invalid("policies", "must be a list of policies", policies)]
    given = cast("Sequence[object]", policies)
    wrong = [each for each in given if not isinstance(each, Policy)]
    if wrong:
        return [_invalid("policies", "holds what is no policy: use @policy", wrong[0])]
    return policy_issues(cast("Sequence[Policy]", policies), "policies")


def _kinds(settings: Settings) -> list[Issue]:
    issues: list[Issue] = []
    if not _is(settings.limits, Limits):
        issues.append(_invalid("limits", "must be a Limits", settings.limits))
    if settings.pipeline is not None and not _is(settings.pipeline, Pipeline):
        issues.append(_invalid("pipeline", "must be a Pipeline", settings.pipeline))
    for name in ("authenticate", "authorize", "on_internal_error", "new_id"):
        value: object = getattr(settings, name)
        if value is not None and not callable(value):
            issues.append(_invalid(name, "must be callable", value))
    if not callable(settings.jitter):
        issues.append(_invalid("jitter", "must be callable", settings.jitter))
    if inspect.iscoroutinefunction(settings.on_internal_error):
        hook = settings.on_internal_error
        issues.append(_invalid("on_internal_error", "must be a plain function", hook))
    if settings.clock is not None and not callable(getattr(settings.clock, "now", None)):
        issues.append(_invalid("clock", "must have a now() method", settings.clock))
    return issues


def _stores(settings: Settings) -> list[Issue]:
    store: object = settings.store
    if store is not None and not all(hasattr(store, part) for part in _PARTS):
        return [_invalid("store", f"must have {', '.join(_PARTS)}", store)]
    keys: object = settings.idempotency
    if keys is None and settings.store is not None:
        keys = settings.store.idempotency
    issues: list[Issue] = []
    if keys is not None and not all(callable(getattr(keys, name, None)) for name in _KEYS):
        issues.append(_invalid("idempotency", "must be an IdempotencyStore", keys))
    for build in (audit_of, approvals_of):
        try:
            build(settings)
        except ConfigurationError as error:
            issues += error.issues
    return issues


def _exceptions(exceptions: object) -> list[Issue]:
    if exceptions is None:
        return []
    if not isinstance(exceptions, Mapping):
        return [_invalid("exceptions", "must map exception classes to classes", exceptions)]
    targets = (DomainError, Forbidden, Unauthenticated)
    return [
        _invalid(
            "exceptions", "must map an Exception to DomainError, Forbidden or Unauthenticated", key
        )
        for key, value in cast("Mapping[object, object]", exceptions).items()
        if not (_is_exception(key) and isinstance(value, type) and issubclass(value, targets))
    ]


def _is_exception(key: object) -> bool:
    return isinstance(key, type) and issubclass(key, Exception)


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind)


def _invalid(name: str, text: str, value: object) -> Issue:
    return Issue("ENGINE_OPTION_INVALID", f"{name} {text}, got {type(value).__name__}", name)


def _refuse(issues: list[Issue]) -> None:
    if issues:
        raise ConfigurationError(issues)
