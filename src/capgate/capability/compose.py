"""Putting declared capabilities together: prefixes, selections, new names, and every conflict.

Composition is one pass over a flat list. It runs nothing and decides no access.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from capgate.capability.declarations import SURFACES
from capgate.capability.fields import is_id
from capgate.capability.library import Library
from capgate.errors import (
    CompositionError,
    Declaration,
    IdCollision,
    ImportIdNotFound,
    ImportInvalid,
    Issue,
    RemapNotSelected,
)

if TYPE_CHECKING:
    from capgate.capability.capability import Capability, Definition


class Composed(NamedTuple):
    """One capability as an engine knows it.

    Attributes:
        definition: The declaration under its effective id.
        handle: The handle it was declared with; it belongs to the engine by identity.
        provenance: Where it comes from; never shown to callers, rules or events.
    """

    definition: Definition
    handle: Capability[..., Any]
    provenance: Declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class Include:
    """One library, as an engine wants it.

    Args:
        library: What to include.
        prefix: Put before every id, with a dot between.
        select: Only these default ids; None: all of them.
        remap: New names by default id; the prefix applies to them too.
    """

    library: Library
    prefix: str = ""
    select: Collection[str] | None = None
    remap: Mapping[str, str] | None = None


def local(handle: Capability[..., Any]) -> Composed:
    """Return a capability that was declared on the engine itself."""
    definition = handle.definition
    return Composed(definition, handle, Declaration("local", definition.id))


def compose(
    declared: Iterable[Composed],
    includes: Iterable[object] = (),
    *,
    known: Mapping[str, Composed] = MappingProxyType({}),
) -> dict[str, Composed]:
    """Return what an engine gains, by effective id: what is declared first, then the libraries.

    Args:
        declared: Capabilities, in order.
        includes: `Include` values, or bare libraries.
        known: What the engine has already; asked only for the ids that are claimed.

    Raises:
        CompositionError: Every collision, unknown id and invalid name, in one error.
    """
    issues: list[Issue] = []
    claims: dict[str, list[Composed]] = {}  # by id, so that rivals meet without comparing pairs
    for each in declared:
        claims.setdefault(each.definition.id, []).append(each)
    for wanted in includes:
        for each in _included(wanted, issues):
            claims.setdefault(each.definition.id, []).append(each)
    for id_, rivals in claims.items():
        if id_ in known:
            rivals.insert(0, known[id_])
    issues += [
        IdCollision(effective_id=id_, declarations=tuple(each.provenance for each in rivals))
        for id_, rivals in claims.items()
        if len(rivals) > 1
    ]
    if issues:
        raise CompositionError(issues)
    return {id_: rivals[0] for id_, rivals in claims.items()}


def _included(wanted: object, issues: list[Issue]) -> list[Composed]:
    include = Include(library=wanted) if isinstance(wanted, Library) else wanted
    if not isinstance(include, Include) or not _is_library(include.library):
        issues.append(ImportInvalid(kind="library", reason="LIBRARY_REQUIRED"))
        return []
    found = _selection_issues(include)
    if found:
        issues += found
        return []
    members = include.library.capabilities
    selected = members if include.select is None else set(include.select)
    remap = include.remap or {}
    return [
        _member(include, handle, remap.get(default_id, default_id), issues)
        for default_id, handle in members.items()
        if default_id in selected
    ]


def _is_library(value: object) -> bool:
    return isinstance(value, Library)


def _member(
    include: Include, handle: Capability[..., Any], name: str, issues: list[Issue]
) -> Composed:
    library = include.library
    effective = f"{include.prefix}.{name}" if include.prefix else name
    if not is_id(effective):
        issues.append(Issue("CAPABILITY_ID_INVALID", "is no capability id", effective))
    provenance = Declaration("library", handle.id, library.name, library.version)
    return Composed(handle.definition.renamed(effective), handle, provenance)


def _selection_issues(include: Include) -> list[Issue]:
    shape = _shape_issues(include)
    if shape:
        return shape
    name, members = include.library.name, include.library.capabilities
    select, remap = include.select, include.remap or {}
    named = [*dict.fromkeys([*(select or ()), *remap])]
    unknown = [each for each in named if each not in members]
    issues: list[Issue] = [ImportIdNotFound(library=name, default_id=each) for each in unknown]
    if select is not None:
        left_out = [each for each in remap if each in members and each not in set(select)]
        issues += [RemapNotSelected(library=name, default_id=each) for each in left_out]
    return issues


def _shape_issues(include: Include) -> list[Issue]:
    where = f"include({include.library.name})"
    checks = (
        (
            "prefix",
            "must be a capability id or empty",
            include.prefix == "" or is_id(include.prefix),
        ),
        ("select", "must be a list of ids", include.select is None or _are_names(include.select)),
        ("remap", "must be a dict of ids", include.remap is None or _is_remap(include.remap)),
    )
    return [
        Issue("INCLUDE_INVALID", message, f"{where}.{field}")
        for field, message, good in checks
        if not good
    ]


def _are_names(value: Any) -> bool:
    collection = isinstance(value, list | tuple | set | frozenset)
    return collection and all(isinstance(each, str) for each in cast("list[object]", value))


def _is_remap(value: Any) -> bool:
    return isinstance(value, Mapping) and _are_names([*value, *value.values()])


def unknown_surfaces(definition: Definition, extra: Collection[str] = ()) -> tuple[str, ...]:
    """Return the surfaces a capability is exposed on that no engine with `extra` knows, sorted."""
    return tuple(sorted(definition.expose - SURFACES - frozenset(extra)))
