"""What pydantic makes of a type: its core schema, and its JSON Schema, checked and frozen.

The heavy half of pydantic is loaded with the first capability and not with the package: its
names are looked up on the module when they are needed.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any, Final, Never

import pydantic

from capgate.capability.frozen import FrozenDict, freeze
from capgate.capability.issues import path_text
from capgate.capability.json_boundary import NotJson, capture
from capgate.capability.metaschema import check_schema

if TYPE_CHECKING:
    from capgate.capability.core_nodes import Node
    from capgate.errors import JSON

_SCHEMA_DEPTH: Final = 200


class BadPartError(TypeError):
    """A parameter, a result or a document that no contract can be made of."""


def described(annotation: Any, mode: Any, what: str) -> tuple[Node, FrozenDict]:
    """Return pydantic's core schema of a type, and its JSON Schema, checked and frozen.

    Args:
        annotation: The type, or a function whose parameters are the fields.
        mode: `validation` for an input, `serialization` for an output.
        what: Names the part, for the message.

    Raises:
        BadPartError: pydantic cannot describe it, or not as JSON.
    """
    try:
        adapter = pydantic.TypeAdapter[Any](annotation)
        schema = capture(
            adapter.json_schema(mode=mode, schema_generator=_generator()), _SCHEMA_DEPTH
        )
    except Exception as error:
        raise BadPartError(f"{what} cannot be described: {first_line(error)}") from error
    schema = _resolved_root(schema)
    check_schema(schema)
    core: Any = adapter.core_schema
    return core, freeze(schema)


def first_line(error: Exception) -> str:
    """Return what an error says, without the paragraphs pydantic adds."""
    if isinstance(error, NotJson):
        return f"its JSON Schema is not JSON at {path_text(error.path)!r}: {error.message}"
    return str(error).partition("\n")[0] or type(error).__name__


def _resolved_root(schema: JSON) -> JSON:
    """Give the root its own keywords, where pydantic refers to a definition."""
    reference = schema.get("$ref", "")
    name = reference.removeprefix("#/$defs/")
    if name == reference:
        return schema
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    return {**schema["$defs"][name], **rest}


class _Methods(dict[str, Any]):
    """Looks a generator's methods up when they are needed; pydantic makes all of them at once."""

    def __init__(self, generator: object) -> None:
        super().__init__()
        self._generator = generator

    def __missing__(self, kind: str) -> Any:
        method = self[kind] = getattr(self._generator, f"{kind.replace('-', '_')}_schema")
        return method


def _prepare_lazily(generator: object) -> _Methods:
    return _Methods(generator)


def _as_made(_generator: object, schema: JSON, _parent_key: str | None = None) -> JSON:
    """Leave the keys in pydantic's order: whoever compares schemas compares canonical JSON."""
    return schema


def _refuse_to_warn(_generator: object, _kind: str, detail: str) -> Never:
    """Refuse what pydantic would only warn about: the schema would say something else."""
    raise BadPartError(detail)


@functools.cache
def _generator() -> Any:
    base: Any = importlib.import_module("pydantic.json_schema").GenerateJsonSchema
    changed = {
        "build_schema_type_to_method": _prepare_lazily,
        "emit_warning": _refuse_to_warn,
        "sort": _as_made,
    }
    return type("CapgateJsonSchema", (base,), changed)
