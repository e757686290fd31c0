"""The fields of a declaration: their rules, their defaults, and how they are captured.

Reading options only. The handler and its contract are read elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from capgate.call import to_seconds
from capgate.capability.declarations import (
    READ_ONLY,
    RISKS,
    SIDE_EFFECTS,
    ApprovalRule,
    Checks,
    Redact,
    Retry,
    is_text,
)
from capgate.capability.frozen import FrozenDict, freeze
from capgate.capability.json_boundary import NotJson, capture
from capgate.capability.policy import Policy
from capgate.errors import DomainError, Issue

MAX_ID_LENGTH: Final = 128

_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*)*\Z")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*\Z")
_LOCAL: Final = frozenset({"direct", "test"})
_TYPED: Final = {"retry": Retry, "approval": ApprovalRule, "redact": Redact}
_EMPTY: Final = FrozenDict()

Options = Mapping[str, Any]


def derive_id(function_name: str) -> str:
    """Return the id a function's name stands for."""
    return function_name.strip("_").lower()


def is_id(value: object) -> bool:
    """Tell whether a value is a capability id: dotted segments, at most 128 characters."""
    return isinstance(value, str) and len(value) <= MAX_ID_LENGTH and _ID.match(value) is not None


def check_options(name: object, doc: str, options: Options) -> list[Issue]:
    """Return everything that is wrong with the fields of one declaration."""
    check = Checks("")
    if not is_id(name):
        check.add("id", "must be dotted segments of [a-z0-9][a-z0-9_-]*, at most 128 characters")
    _check_texts(check, doc, options)
    _check_exposure(check, options)
    _check_bounds(check, options)
    _check_parts(check, options)
    _check_retry(check, options)
    return [Issue(each.code, each.message, each.where.removeprefix(".")) for each in check.issues]


def _check_texts(check: Checks, doc: str, options: Options) -> None:
    check.text("title", options.get("title"))
    if options.get("description") is not None:
        check.text("description", options["description"])
    elif not first_paragraph(doc):
        check.add("description", "is missing: give the handler a docstring, or description=")
    for name in ("input_schema", "output_schema"):
        if name in options and not isinstance(options[name], dict):
            check.add(name, "must be a dict, a JSON Schema document")


def _check_exposure(check: Checks, options: Options) -> None:
    expose = _names(check, "expose", options.get("expose", {"direct"}))
    bad = sorted(each for each in expose if not _NAME.match(each))
    if bad:
        check.add("expose", f"{', '.join(map(repr, bad))} cannot be the name of a surface")
    for name, allowed in (("side_effect", SIDE_EFFECTS), ("risk", RISKS)):
        if name in options:
            _check_word(check, name, options[name], allowed)
        elif not expose <= _LOCAL:
            check.add(name, "must be given when a surface besides direct and test is exposed")


def _check_word(check: Checks, name: str, value: object, allowed: Iterable[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        check.add(name, f"must be one of {', '.join(sorted(allowed))}")


def _check_bounds(check: Checks, options: Options) -> None:
    if options.get("timeout") is not None:
        check.seconds("timeout", options["timeout"])
    if options.get("max_concurrency") is not None:
        check.count("max_concurrency", options["max_concurrency"], least=1)
    check.flag("idempotent", options.get("idempotent", False))
    _names(check, "tags", options.get("tags", ()))


def _check_parts(check: Checks, options: Options) -> None:
    for name, kind in _TYPED.items():
        if options.get(name) is not None and not isinstance(options[name], kind):
            check.add(name, f"must be a {kind.__name__}(…)")
    access = options.get("access", "authenticated")
    # A wrong string would otherwise be found only when the first call is refused.
    if access not in ("public", "authenticated") and (
        isinstance(access, str) or not callable(access)
    ):
        check.add("access", 'must be "public", "authenticated", requires(…) or a function')
    _check_policies(check, options.get("policies", ()))
    _check_errors(check, options.get("errors", ()))
    for name in ("annotations", "adapters"):
        _check_json(check, name, options.get(name, _EMPTY))


def _check_policies(check: Checks, policies: Any) -> None:
    found = cast("list[Policy]", policies)
    if not isinstance(policies, list | tuple) or not _all(found, Policy):
        check.add("policies", "must be a list of policies, made with @policy or combine(…)")
        return
    names = [name for each in found for name in _member_names(each)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        check.add("policies", f"the name {', '.join(map(repr, twice))} stands more than once")


def _all(values: Iterable[object], kind: type) -> bool:
    return all(isinstance(each, kind) for each in values)


def _member_names(policy: Policy) -> list[str]:
    return [name for member in policy.members for name in _member_names(member)] or [policy.name]


def _check_errors(check: Checks, errors: Any) -> None:
    good = isinstance(errors, list | tuple | set | frozenset) and all(
        isinstance(each, type) and issubclass(each, DomainError)
        for each in cast("list[object]", errors)
    )
    if not good:
        check.add("errors", "must be a list of subclasses of DomainError")


def _check_json(check: Checks, name: str, value: object) -> None:
    try:
        good = isinstance(capture(value if type(value) is not FrozenDict else dict(value)), dict)
    except NotJson as error:
        check.add(name, f"must be JSON: {error.message}")
        return
    if not good:
        check.add(name, "must be a dict")


def _check_retry(check: Checks, options: Options) -> None:
    writes = options.get("side_effect", "write") not in tuple(READ_ONLY)
    if options.get("retry") is not None and writes and not options.get("idempotent"):
        check.add("retry", "a capability that writes may be tried again only with idempotent=True")


def _names(check: Checks, name: str, value: Any) -> frozenset[str]:
    if isinstance(value, set | frozenset | list | tuple):
        words = list(cast("list[str]", value))
        if all(map(is_text, words)):
            return frozenset(words)
    check.add(name, "must be a set of names")
    return frozenset()


def first_paragraph(doc: str) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join(doc.strip().partition("\n\n")[0].split())


def read_fields(doc: str, options: Options) -> dict[str, Any]:
    """Return the fields of a checked declaration, defaults filled in, captured by copy."""
    timeout = options.get("timeout")
    return {
        "title": options.get("title"),
        "description": options.get("description") or first_paragraph(doc),
        "side_effect": options.get("side_effect", "write"),
        "risk": options.get("risk", "medium"),
        "expose": frozenset(options.get("expose", {"direct"})),
        "access": options.get("access", "authenticated"),
        "timeout": None if timeout is None else to_seconds(timeout, "timeout"),
        "retry": options.get("retry"),
        "idempotent": options.get("idempotent", False),
        "max_concurrency": options.get("max_concurrency"),
        "approval": options.get("approval"),
        "redact": options.get("redact"),
        "policies": tuple(options.get("policies", ())),
        "errors": tuple(options.get("errors", ())),
        "tags": frozenset(options.get("tags", ())),
        "annotations": freeze(options.get("annotations", _EMPTY)),
        "adapters": freeze(options.get("adapters", _EMPTY)),
    }
