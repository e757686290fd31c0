"""Typed values from stored JSON, without doing to them again what validation did.

A validated value may differ from what was sent: an author's validator multiplied, parsed or
trimmed it. The ordinary schema would do that a second time. Each candidate here is tried in turn
and proven: what it gives must dump to exactly the stored JSON. Storage is elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import pydantic
from pydantic_core import SchemaValidator

from capgate.call import Argument
from capgate.capability.canonical import canonical_json
from capgate.capability.core_nodes import CHILDREN, Node, descend, json_leaf
from capgate.capability.json_boundary import NotJson, is_array, is_object, is_tuple
from capgate.capability.violation import violation

if TYPE_CHECKING:
    from capgate.errors import JSON

_FUNCTIONS: Final = frozenset({"function-before", "function-after", "function-wrap"})
_CONSTRAINTS: Final = frozenset(
    [
        "gt",
        "ge",
        "lt",
        "le",
        "multiple_of",
        "min_length",
        "max_length",
        "pattern",
        "max_digits",
        "decimal_places",
        "now_op",
        "strip_whitespace",
        "to_lower",
        "to_upper",
    ]
)
_UNPROVEN: Final = "The stored value cannot be restored."

Validate = Callable[[object], Argument]


class _Way(NamedTuple):
    """One way to read stored values: what to leave out of the ordinary schema."""

    construct: bool
    functions: str


# From the least left out to the most. The ordinary schema goes before all of them: where doing it
# again changes nothing, it alone knows how an author's own types are built.
_WAYS: Final = (_Way(True, "inner"), _Way(False, "inner"), _Way(True, "json"), _Way(False, "json"))


class Restorer:
    """Restores the values of one hardened schema; its validators are built when first needed."""

    def __init__(
        self, schema: Node, ordinary: Validate, dump: Callable[[Argument], JSON], max_depth: int
    ) -> None:
        self._schema = schema
        self._dump = dump
        self._max_depth = max_depth
        self._built: dict[int, Validate] = {0: ordinary}

    def restore(self, stored: JSON) -> Argument:
        """Return the value whose dump is exactly `stored`.

        Raises:
            ContractViolation: No way of reading it proves right.
        """
        # What a way gives counts only if it dumps to the very bytes that were approved.
        try:
            wanted = canonical_json(stored)
        except NotJson as error:
            raise violation(_UNPROVEN) from error
        refusals: list[Exception] = []
        for index in range(len(_WAYS) + 1):
            try:
                value = self._way(index)(stored)
                if canonical_json(self._dump(value)) == wanted:
                    return value
            except Exception as error:
                refusals.append(error)
        cause = ExceptionGroup("no way of reading it", refusals) if refusals else None
        raise violation(_UNPROVEN) from cause

    def prove(self, value: Argument, stored: JSON) -> None:
        """Check that restoring gives this very value back, types included.

        Raises:
            ContractViolation: It would give another one.
        """
        restored = self.restore(stored)
        try:
            equal = same(restored, value)
        except Exception as error:
            raise violation(_UNPROVEN) from error
        if not equal:
            raise violation(_UNPROVEN)

    def _way(self, index: int) -> Validate:
        if index not in self._built:  # most values never need a second way, so none is built early
            way = _WAYS[index - 1]
            relaxed = _relax(self._schema, way, json_leaf(self._max_depth))
            built = SchemaValidator(cast("Any", relaxed), _use_prebuilt=False)
            self._built[index] = built.validate_python
        return self._built[index]


def _relax(node: Mapping[str, Any], way: _Way, leaf: Node) -> Node:
    """Return the schema without an author's functions and without constraints already met."""
    if node.get("type") in {*_FUNCTIONS, "function-plain"} and _is_foreign(node):
        bare = way.functions == "json" or "schema" not in node
        return leaf if bare else _relax(node["schema"], way, leaf)
    relaxed = {key: value for key, value in node.items() if key not in _CONSTRAINTS}
    if relaxed.get("type") == "str":
        relaxed["min_length"] = 0
    _read_as_written(relaxed)
    if not way.construct:
        relaxed.pop("post_init", None)
        relaxed.pop("custom_init", None)
    for slot, inside in relaxed.items():
        if slot in CHILDREN or slot == "definitions":
            relaxed[slot] = descend(inside, lambda child: _relax(child, way, leaf))
    return relaxed


def _is_foreign(node: Mapping[str, Any]) -> bool:
    function = node["function"]["function"]
    module = getattr(function, "__module__", None)
    return not (isinstance(module, str) and module.partition(".")[0] == "pydantic")


def _read_as_written(node: Node) -> None:
    # The stored form was written under the serialisation alias, so that is where to read.
    if "validation_alias" in node:
        node.pop("validation_alias")
        if "serialization_alias" in node:
            node["validation_alias"] = node["serialization_alias"]


def same(left: Argument, right: Argument) -> bool:
    """Tell whether two values are equal in value and in type, all the way down."""
    if type(left) is not type(right):
        return False
    if is_object(left):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if is_array(left):
        return len(left) == len(right) and all(map(same, left, right))
    if is_tuple(left):
        return same([*left], [*right])
    if isinstance(left, pydantic.BaseModel) or dataclasses.is_dataclass(left):
        return left == right and same(_state(left), _state(right))
    return bool(left == right)


def _state(value: Argument) -> dict[str, Argument]:
    if isinstance(value, pydantic.BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
