"""What a pydantic core schema is made of: its slots, its leaves, and how to walk it.

Facts about nodes only. What is done to them is in `hardening` and `restoring`.

Source: pydantic-core's `core_schema`, the documented form of what pydantic validates with.
"""

from __future__ import annotations

import enum
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from uuid import UUID

from pydantic_core import PydanticCustomError

from capgate.capability.json_boundary import NotJson, check_text, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from capgate.errors import JSON

Node: TypeAlias = dict[str, Any]

UNION_LABEL: Final = "\x00"
JSON_ERROR: Final = "capgate_json"

CHILDREN: Final = frozenset(
    [
        "schema",
        "items_schema",
        "keys_schema",
        "values_schema",
        "extras_schema",
        "extras_keys_schema",
        "choices",
        "steps",
        "lax_schema",
        "strict_schema",
        "json_schema",
        "python_schema",
        "arguments_schema",
        "var_args_schema",
        "var_kwargs_schema",
        "fields",
    ]
)
CONTAINERS: Final = frozenset(
    [
        "list",
        "set",
        "frozenset",
        "tuple",
        "dict",
        "typed-dict",
        "model-fields",
        "dataclass-args",
        "arguments",
    ]
)
CLEAN: Final = frozenset(
    [
        "str",
        "int",
        "float",
        "bool",
        "none",
        "any",
        "decimal",
        "date",
        "time",
        "datetime",
        "timedelta",
        "uuid",
        "url",
        "multi-host-url",
        "literal",
        "enum",
        "nullable",
        "default",
        "union",
        "tagged-union",
        "list",
        "set",
        "frozenset",
        "tuple",
        "dict",
        "typed-dict",
        "typed-dict-field",
        "model",
        "model-fields",
        "model-field",
        "dataclass",
        "dataclass-args",
        "dataclass-field",
        "definitions",
        "definition-ref",
        "chain",
        "custom-error",
        "lax-or-strict",
        "json-or-python",
        "function-before",
    ]
)
FRESH: Final = CLEAN | {"bytes", "json", "call", "arguments"}
_SCALARS: Final = frozenset(
    [
        "str",
        "int",
        "float",
        "bool",
        "none",
        "decimal",
        "date",
        "time",
        "datetime",
        "timedelta",
        "uuid",
        "enum",
        "literal",
        "bytes",
        "url",
        "multi-host-url",
    ]
)
FIXED: Final = (
    str,
    int,
    float,
    bytes,
    Decimal,
    date,
    time,
    datetime,
    timedelta,
    UUID,
    enum.Enum,
    type(None),
)


def is_scalar(node: Mapping[str, Any]) -> bool:
    """Tell whether every value of a schema is immutable, so that a copy needs no look inside."""
    # A nullable node has no default: None, which is as fixed as any.
    kind = node["type"]
    if kind in {"nullable", "default"}:
        settled = "default_factory" not in node and isinstance(node.get("default"), FIXED)
        return settled and is_scalar(node["schema"])
    if kind == "union":
        return all(map(is_scalar, branches(node)))
    return kind in _SCALARS


def branches(union: Mapping[str, Any]) -> list[Node]:
    """Return the schemas of a union, without their labels."""
    choices: list[Any] = union["choices"]
    return [each[0] if isinstance(each, tuple) else each for each in choices]


def descend(value: object, walk: Callable[[Node], Node]) -> object:
    """Apply `walk` to every schema directly inside a child slot of a node."""
    if isinstance(value, dict):
        node = cast("Node", value)
        # A node has a type, a parameter a name; a plain map of nodes may have a field so named.
        if isinstance(node.get("type"), str) or isinstance(node.get("name"), str):
            return walk(node)
        return {key: descend(child, walk) for key, child in node.items()}
    if isinstance(value, list):
        return [descend(child, walk) for child in cast("list[object]", value)]
    if isinstance(value, tuple):
        return tuple(descend(child, walk) for child in cast("tuple[object, ...]", value))
    return value


def json_leaf(max_depth: int) -> Node:
    """Return the schema of any JSON value; what pydantic can serialise becomes its JSON form."""

    def capture_leaf(value: object) -> JSON:
        try:
            return to_json(value, max_depth)
        except NotJson as error:
            raise PydanticCustomError(JSON_ERROR, "Not JSON.", {"cause": error}) from error

    function = {"type": "no-info", "function": capture_leaf}
    return {"type": "function-plain", "function": function}


def has_alias(node: Node) -> bool:
    """Tell whether a model or dataclass is read under names that are not its fields'."""
    inner: Node = node
    while "fields" not in inner or inner["type"] == "dataclass":
        if not isinstance(inner.get("schema"), dict):
            return False
        inner = inner["schema"]
    fields: Any = inner["fields"]
    each = cast("list[Node]", fields if isinstance(fields, list) else [*fields.values()])
    return any("validation_alias" in field for field in each)


def is_plain(value: object) -> bool:
    """Tell whether a literal or the value of an enum is JSON as it stands."""
    if isinstance(value, enum.Enum):
        return is_plain(value.value)
    if type(value) is str:
        try:
            return bool(check_text(value) or True)
        except NotJson:
            return False
    return type(value) in {int, bool, type(None)}
