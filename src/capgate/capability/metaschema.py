"""Whether a document is a Draft 2020-12 schema that can be used: checked once, at registration.

Most schemas use a few keywords in their plain form; those are accepted at once. Anything else
goes through the metaschema itself. References may only point into the document.

Source: JSON Schema Draft 2020-12, core (section 8) and validation (section 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from capgate.capability.json_boundary import is_array, is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from capgate.errors import JSON


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
TYPES: Final = frozenset(["null", "boolean", "object", "array", "number", "integer", "string"])

ONE: Final = frozenset(
    [
        "items",
        "additionalProperties",
        "propertyNames",
        "contains",
        "not",
        "if",
        "then",
        "else",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentSchema",
    ]
)
MANY: Final = frozenset(["allOf", "anyOf", "oneOf", "prefixItems"])
NAMED: Final = frozenset(["properties", "$defs", "patternProperties", "dependentSchemas"])
_IN_PLACE: Final = frozenset(
    ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"]
)


class BadDocumentError(TypeError):
    """A document that is no usable JSON Schema; the message says where and why."""


def check_schema(schema: JSON) -> None:
    """Check a document against the metaschema.

    Raises:
        BadDocumentError: It is no Draft 2020-12 schema.
    """
    if _is_plain(schema):
        return
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        where = "/".join(["#", *map(str, error.absolute_path)])
        raise BadDocumentError(f"not a JSON Schema (2020-12): {where} is wrong") from error


def _is_plain(schema: JSON) -> bool:
    if not is_object(schema):
        return isinstance(schema, bool)
    for keyword, value in schema.items():
        check = _PLAIN.get(keyword)
        if check is None or not check(value):
            return False
    return True


def _many(value: JSON) -> bool:
    return is_array(value) and bool(value) and all(map(_is_plain, value))


def _named(value: JSON) -> bool:
    return is_object(value) and all(map(_is_plain, value.values()))


def _text(value: object) -> bool:
    return isinstance(value, str)


def _anything(_value: object) -> bool:
    return True


def _array(value: object) -> bool:
    return isinstance(value, list)


def _flag(value: object) -> bool:
    return isinstance(value, bool)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _names(value: JSON) -> bool:
    return is_array(value) and all(map(_text, value)) and len(set(value)) == len(value)


def _type(value: object) -> bool:
    return isinstance(value, str) and value in TYPES


_PLAIN: Final[Mapping[str, Callable[[object], bool]]] = {
    **dict.fromkeys(ONE, _is_plain),
    **dict.fromkeys(MANY, _many),
    **dict.fromkeys(NAMED - {"patternProperties"}, _named),
    **dict.fromkeys(("title", "description", "format", "contentMediaType"), _text),
    **dict.fromkeys(("default", "const"), _anything),
    **dict.fromkeys(("enum", "examples"), _array),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
    **dict.fromkeys(("minProperties", "maxProperties"), _count),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), _flag),
    "$ref": lambda value: isinstance(value, str) and value.startswith("#/$defs/"),
    "pattern": _text,
    "required": _names,
    "type": _type,
}


def subschemas(schema: Mapping[str, JSON]) -> Iterator[tuple[str, JSON]]:
    """Yield every schema directly inside a schema, with its keyword."""
    for keyword, value in schema.items():
        if keyword in ONE:
            yield keyword, value
        elif keyword in MANY and is_array(value):
            yield from ((keyword, each) for each in value)
        elif keyword in NAMED and is_object(value):
            yield from ((keyword, each) for each in value.values())


def check_references(document: JSON) -> None:
    """Check that every reference points into the document and that none goes in circles.

    Raises:
        BadDocumentError: A reference leads outside, nowhere, or back to itself.
    """
    anchors: dict[str, JSON] = {}
    schemas: list[dict[str, JSON]] = []
    waiting: list[JSON] = [document]
    while waiting:
        schema = waiting.pop()
        if is_object(schema):
            schemas.append(schema)
            _check_dialect(schema, root=schema is document)
            anchors.update({schema[a]: schema for a in ("$anchor",) if a in schema})
            waiting.extend(each for _, each in subschemas(schema))
    for schema in schemas:
        _check_circle(schema, document, anchors)


def _check_dialect(schema: Mapping[str, JSON], *, root: bool) -> None:
    if schema.get("$schema", DIALECT).rstrip("#") != DIALECT:
        raise BadDocumentError("only the dialect of Draft 2020-12 is supported in $schema")
    unsupported = {"$dynamicRef", "$dynamicAnchor", "$vocabulary", *(() if root else ("$id",))}
    found = sorted(unsupported & schema.keys())
    if found:
        raise BadDocumentError(f"{', '.join(found)} is not supported in a contract")


def _check_circle(start: Mapping[str, JSON], document: JSON, anchors: Mapping[str, JSON]) -> None:
    """Follow what applies to the very same value; meeting the start again would never end."""
    seen: set[int] = set()
    waiting = _applied(start, document, anchors)
    while waiting:
        schema = waiting.pop()
        if schema is start:
            raise BadDocumentError("a $ref leads back to itself without going into the value")
        if is_object(schema) and id(schema) not in seen:
            seen.add(id(schema))
            waiting.extend(_applied(schema, document, anchors))


def _applied(schema: Mapping[str, JSON], document: JSON, anchors: Mapping[str, JSON]) -> list[JSON]:
    applied = [each for keyword, each in subschemas(schema) if keyword in _IN_PLACE]
    if "$ref" in schema:
        applied.append(_target(schema["$ref"], document, anchors))
    return applied


def _target(reference: str, document: JSON, anchors: Mapping[str, JSON]) -> JSON:
    if not reference.startswith("#"):
        raise BadDocumentError("a $ref may only point into its own document (#…)")
    fragment = unquote(reference[1:])
    if fragment and not fragment.startswith("/"):
        if fragment not in anchors:
            raise BadDocumentError(f"$ref {reference!r} leads nowhere")
        return anchors[fragment]
    here = document
    try:
        for part in fragment.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            here = here[int(key)] if is_array(here) else here[key]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise BadDocumentError(f"$ref {reference!r} leads nowhere") from error
    return here
