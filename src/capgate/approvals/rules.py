"""Approver rules as references that a store can keep, and back, without importing anything.

A reference is only ever resolved to a rule that this process registered.
"""

from __future__ import annotations

import secrets
import sys
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

from capgate.approvals.plain import copy_json, is_array, is_object
from capgate.capability import PermissionRule

if TYPE_CHECKING:
    from capgate.capability import AccessRule
    from capgate.errors import JSON

# Policies may make a new closure on every call; the oldest are forgotten, and then refuse.
_MAX_LOCAL: Final = 10_000


class RuleBook:
    """The approver rules that one engine knows.

    `requires(...)` is written out in full. A function that its module holds under its own
    name is `{"rule": "module:name"}`. Any other callable (a lambda, a closure) has no name
    that is its own: declared by an owner, the reference names both; otherwise it is good for
    this process only. The same object always has the same reference.
    """

    __slots__ = ("_known", "_local", "_lock", "_named", "_tokens")

    def __init__(self) -> None:
        """Start empty."""
        self._lock = Lock()
        self._named: dict[tuple[str, str | None], AccessRule] = {}
        # By identity; the rule is kept beside, so that its identity is not given to another.
        self._known: dict[int, tuple[AccessRule, JSON]] = {}
        self._local: OrderedDict[str, AccessRule] = OrderedDict()
        self._tokens: dict[int, str] = {}

    def register(self, rule: AccessRule, *, owner: str | None = None) -> JSON:
        """Remember a rule and return its reference, plain JSON.

        The owner is the id of the capability whose declaration holds the rule: the reference
        is then the same in every process that declares it. A rule that is made while a call
        runs has no owner, or another call's rule could be taken for it.

        Raises:
            TypeError: Not a rule.
        """
        if isinstance(rule, PermissionRule):
            return {"requires": sorted(rule.permissions)}
        if not callable(rule):
            raise TypeError("an approver rule must be requires(...) or a callable")
        with self._lock:
            known = self._known.get(id(rule))
            return self._refer(rule, owner) if known is None else copy_json(known[1])

    def _refer(self, rule: AccessRule, owner: str | None) -> JSON:
        name = _name(rule)
        if _is_importable(rule):
            return self._keep(rule, {"rule": name})
        if owner is not None and (name, owner) not in self._named:
            return self._keep(rule, {"rule": name, "owner": owner})
        return {"rule": name, "local": self._token(rule)}

    def _keep(self, rule: AccessRule, reference: dict[str, str]) -> JSON:
        self._named[reference["rule"], reference.get("owner")] = rule
        self._known[id(rule)] = (rule, reference)
        return copy_json(reference)

    def resolve(self, reference: JSON) -> AccessRule | None:
        """Return the rule, or None: then nobody is entitled."""
        if not is_object(reference):
            return None
        parts = dict(reference)
        if set(parts) == {"requires"}:
            return _permission_rule(parts["requires"])
        if not all(isinstance(part, str) for part in parts.values()):
            return None
        if set(parts) == {"rule", "local"}:
            return self._local.get(parts["local"])
        if set(parts) in ({"rule"}, {"rule", "owner"}):
            return self._named.get((parts["rule"], parts.get("owner")))
        return None

    def _token(self, rule: AccessRule) -> str:
        known = self._tokens.get(id(rule))
        if known is not None:
            self._local.move_to_end(known)
            return known
        token = secrets.token_hex(8)
        self._tokens[id(rule)] = token
        self._local[token] = rule
        if len(self._local) > _MAX_LOCAL:
            _, forgotten = self._local.popitem(last=False)
            del self._tokens[id(forgotten)]
        return token


def _permission_rule(permissions: JSON) -> AccessRule | None:
    if not is_array(permissions) or not permissions:
        return None
    well_formed = all(isinstance(name, str) and name.strip() for name in permissions)
    return PermissionRule(frozenset(permissions)) if well_formed else None


def _name(rule: AccessRule) -> str:
    module = getattr(rule, "__module__", None) or type(rule).__module__
    qualname = getattr(rule, "__qualname__", None) or type(rule).__qualname__
    return f"{module}:{qualname}"


def _is_importable(rule: AccessRule) -> bool:
    # Identity, not equality of names: a decorated copy carries the name of its original.
    module, _, qualname = _name(rule).partition(":")
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found is rule
