"""Rewriting pydantic core schemas once, so that validated values need no second look per call.

A hardened schema refuses what JSON cannot carry (NaN, lone surrogates, foreign objects under
`Any`), never lets an instance through unchecked, and always builds fresh containers. What a
schema cannot promise by itself (an author's functions, recursion) is reported in `Hardened`,
and the caller then walks and copies each value. Restoring is next door.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from capgate.capability.canonical import canonical_json
from capgate.capability.core_nodes import (
    CHILDREN,
    CLEAN,
    CONTAINERS,
    FIXED,
    FRESH,
    UNION_LABEL,
    Node,
    branches,
    descend,
    has_alias,
    is_plain,
    json_leaf,
)

if TYPE_CHECKING:
    from capgate.errors import JSON

_LIMITS: Final = frozenset(
    [
        "gt",
        "ge",
        "lt",
        "le",
        "multiple_of",
        "min_length",
        "max_length",
        "max_digits",
        "decimal_places",
        "whole_digits",
    ]
)


class UnsupportedSchemaError(TypeError):
    """A declared type whose values cannot cross the JSON boundary at all."""


class Hardened(NamedTuple):
    """A rewritten schema and what it cannot promise.

    Args:
        schema: The rewritten core schema.
        opaque: The JSON form must be looked at for each value.
        shared: A value may share mutable objects with somebody and must be copied.
        depth: How many containers may stand inside one another; meaningless when opaque.
        limits: The constraints it declares, as text.
        tags: The tags of its tagged unions.
        transforms: An author's functions may change values.
    """

    schema: Node
    opaque: bool
    shared: bool
    depth: int
    limits: frozenset[str]
    tags: frozenset[str]
    transforms: bool


def harden(schema: Mapping[str, Any], max_depth: int, *, keep_excluded: bool) -> Hardened:
    """Rewrite a core schema.

    Args:
        schema: What pydantic generated; it is not changed.
        max_depth: How deep the JSON under an `Any` may go.
        keep_excluded: Dump fields that are declared `exclude=True`: an input is hashed whole.

    Raises:
        UnsupportedSchemaError: A part of the schema is lazy and can never be captured.
    """
    hardener = _Hardener(max_depth, keep_excluded=keep_excluded)
    rewritten = hardener.walk(schema, 0, {})
    return Hardened(
        rewritten,
        hardener.opaque,
        hardener.shared,
        hardener.deepest,
        frozenset(hardener.limits),
        frozenset(hardener.tags),
        hardener.transforms,
    )


def _sorted_dump(value: Iterable[object], dump: Callable[[object], list[JSON]]) -> list[JSON]:
    return sorted(dump(value), key=canonical_json)


class _Hardener:
    """One walk over one schema; what it finds out is left in its attributes."""

    def __init__(self, max_depth: int, *, keep_excluded: bool) -> None:
        self.opaque = False
        self.shared = False
        self.transforms = False
        self.deepest = 0
        self.limits: set[str] = set()
        self.tags: set[str] = set()
        self._max_depth = max_depth
        self._keep_excluded = keep_excluded
        self._raw: dict[str, Node] = {}
        self._done: dict[str, Node] = {}
        self._heights: dict[str, int] = {}
        self._inside = 0

    def walk(self, node: Mapping[str, Any], outer: int, config: Mapping[str, Any]) -> Node:
        """Return the rewritten node; `outer` containers stand around it."""
        kind: str = node.get("type", "parameter")
        rewritten = dict(node)
        config = rewritten.get("config") or config
        self._judge(kind, rewritten)
        rewrite = _REWRITES.get(kind)
        if rewrite is not None:
            rewrite(self, rewritten, config)
        if kind == "any":
            return self._leaf(outer)
        if kind == "definitions":
            return self._definitions(rewritten, outer, config)
        if kind == "definition-ref":
            self._reference(rewritten["schema_ref"], outer)
            return rewritten
        self._walk_children(rewritten, outer + (kind in CONTAINERS), config)
        return rewritten

    def _walk_children(self, node: Node, outer: int, config: Mapping[str, Any]) -> None:
        self.deepest = max(self.deepest, outer)
        for slot, inside in node.items():
            if slot in CHILDREN:
                node[slot] = descend(inside, lambda child: self.walk(child, outer, config))

    def _judge(self, kind: str, node: Node) -> None:
        if kind == "generator":
            raise UnsupportedSchemaError("a lazy iterable cannot be captured; declare a list")
        # What is not on the list may be anything pydantic adds later: looked at, never trusted.
        known = kind in CLEAN or kind == "parameter"
        custom = "serialization" in node or node.get("computed_fields")
        self.opaque = self.opaque or not known or bool(custom)
        self.shared = self.shared or not (kind in FRESH or kind == "parameter")
        self.transforms = self.transforms or kind.startswith("function-")
        if not _LIMITS.isdisjoint(node):
            self.limits.update([str(node[name]) for name in _LIMITS & node.keys()])

    def _leaf(self, outer: int) -> Node:
        # A definition may be reached at several depths, so its leaves cannot know their own.
        self.opaque = self.opaque or self._inside > 0
        return json_leaf(max(self._max_depth - outer, 0))

    def _definitions(self, node: Node, outer: int, config: Mapping[str, Any]) -> Node:
        self._raw.update({each["ref"]: each for each in node["definitions"]})
        node["schema"] = self.walk(node["schema"], outer, config)
        node["definitions"] = list(self._done.values())
        return node

    def _reference(self, ref: str, outer: int) -> None:
        if ref in self._heights:
            self.deepest = max(self.deepest, outer + self._heights[ref])
            return
        if ref in self._done:  # still being walked: it contains itself, so no depth is the last
            self.opaque = True
            return
        self._done[ref] = {}
        before, self.deepest = self.deepest, outer
        self._inside += 1
        self._done[ref] = self.walk(self._raw[ref], outer, {})
        self._inside -= 1
        self._heights[ref] = self.deepest - outer
        self.deepest = max(before, self.deepest)

    def text(self, node: Node, _config: Mapping[str, Any]) -> None:
        """A constrained str is decoded by pydantic, which refuses lone surrogates."""
        node.setdefault("min_length", 0)

    def number(self, node: Node, _config: Mapping[str, Any]) -> None:
        node["allow_inf_nan"] = False

    def collection(self, node: Node, _config: Mapping[str, Any]) -> None:
        node.setdefault("items_schema", {"type": "any"})

    def unordered(self, node: Node, config: Mapping[str, Any]) -> None:
        """A set has no order; its JSON form needs one, the same in every process."""
        self.collection(node, config)
        node.setdefault(
            "serialization",
            {
                "type": "function-wrap",
                "function": _sorted_dump,
                "schema": {"type": "list", "items_schema": node["items_schema"]},
                "when_used": "json",
            },
        )

    def mapping(self, node: Node, _config: Mapping[str, Any]) -> None:
        if node.get("keys_schema", {"type": "any"})["type"] == "any":
            # JSON has text keys only: {1: …} and {"1": …} would become the same object.
            node["keys_schema"] = {"type": "str", "strict": True}
        node.setdefault("values_schema", {"type": "any"})

    def union(self, node: Node, _config: Mapping[str, Any]) -> None:
        """Branch names would stand in the paths of issues, names of functions among them."""
        node["choices"] = [(branch, UNION_LABEL) for branch in branches(node)]

    def instance(self, node: Node, config: Mapping[str, Any]) -> None:
        """An instance is checked like any other input: how it was made proves nothing."""
        by_name = {"validate_by_name": True, "validate_by_alias": True} if has_alias(node) else {}
        # Revalidation reads an instance by field names, whatever its aliases are.
        node["config"] = {**config, **by_name, "revalidate_instances": "always"}
        node["revalidate_instances"] = "always"
        if node.get("post_init") or node.get("custom_init"):
            self.opaque = self.shared = self.transforms = True

    def members(self, node: Node, config: Mapping[str, Any]) -> None:
        extra = node.get("extra_behavior") or config.get("extra_fields_behavior")
        if extra == "allow":  # extra fields would be kept unchecked, and shared with the caller
            node.setdefault("extras_schema", {"type": "any"})
            node.setdefault("extras_keys_schema", {"type": "str"})

    def member(self, node: Node, _config: Mapping[str, Any]) -> None:
        if self._keep_excluded:
            node.pop("serialization_exclude", None)
            node.pop("serialization_exclude_if", None)

    def default(self, node: Node, _config: Mapping[str, Any]) -> None:
        known = "default_factory" not in node and isinstance(node.get("default"), FIXED)
        if not known:
            self.opaque = True
            self.shared = self.shared or not node.get("copy_default", False)

    def literal(self, node: Node, _config: Mapping[str, Any]) -> None:
        self.opaque = self.opaque or not all(map(is_plain, node["expected"]))

    def enumeration(self, node: Node, _config: Mapping[str, Any]) -> None:
        self.opaque = self.opaque or not all(is_plain(m.value) for m in node["members"])

    def tagged(self, node: Node, _config: Mapping[str, Any]) -> None:
        self.tags.update(map(str, node["choices"]))


_Rewrite: TypeAlias = Callable[[_Hardener, Node, Mapping[str, Any]], None]

_REWRITES: Final[Mapping[str, _Rewrite]] = {
    "str": _Hardener.text,
    "float": _Hardener.number,
    "decimal": _Hardener.number,
    "list": _Hardener.collection,
    "set": _Hardener.unordered,
    "frozenset": _Hardener.unordered,
    "dict": _Hardener.mapping,
    "union": _Hardener.union,
    "tagged-union": _Hardener.tagged,
    "model": _Hardener.instance,
    "dataclass": _Hardener.instance,
    "model-fields": _Hardener.members,
    "typed-dict": _Hardener.members,
    "model-field": _Hardener.member,
    "typed-dict-field": _Hardener.member,
    "dataclass-field": _Hardener.member,
    "default": _Hardener.default,
    "literal": _Hardener.literal,
    "enum": _Hardener.enumeration,
}
