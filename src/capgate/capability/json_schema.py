"""Contracts written as JSON Schema documents, Draft 2020-12.

`jsonschema` judges, or `jsonschema-rs` where it is installed; both give the same answers and the
same issues. What makes them agree is in `dialect`, what a document may say in `metaschema`.

Source: JSON Schema Draft 2020-12, core and validation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from referencing import Registry
from referencing.jsonschema import DRAFT202012

from capgate.capability.dialect import Judge, fast_engine, make_judge
from capgate.capability.frozen import freeze
from capgate.capability.issues import INVALID, path_text
from capgate.capability.json_boundary import NotJson, capture, is_object, snapshot
from capgate.capability.metaschema import (
    BadDocumentError,
    check_references,
    check_schema,
    subschemas,
)
from capgate.capability.shape import Shape
from capgate.capability.violation import ContractViolation, violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from capgate.call import Argument
    from capgate.errors import JSON


_MOST_BRANCHES: Final = 100_000
_DEEPER: Final = frozenset(["properties", "patternProperties", "items", "prefixItems"])


def capture_document(document: object, *, need_object: bool) -> JSON:
    """Return a copy of a document that is fit to be a contract.

    Args:
        document: The JSON Schema.
        need_object: The root must be an object: it is an input.

    Raises:
        BadDocumentError: It is no schema, points outside itself, its root is no object, or judging
            one value by it could take more than 100,000 branches.
        NotJson: It is not JSON.
    """
    captured = capture(document)
    if not is_object(captured):
        raise BadDocumentError("a contract's JSON Schema must be a dict")
    check_schema(captured)
    check_references(captured)
    _check_work(captured)
    if need_object and captured.get("type") != "object":
        raise BadDocumentError('the root of an input schema must say "type": "object"')
    return captured


def _check_work(document: dict[str, JSON]) -> None:
    """Refuse unions of unions that double the work for one value at every step."""
    resolver: Any = Registry[Any]().resolver_with_root(DRAFT202012.create_resource(document))
    known: dict[int, int] = {}

    def branches(schema: JSON) -> int:
        if not is_object(schema):
            return 1
        if id(schema) not in known:
            known[id(schema)] = 1  # a circle goes into the value, whose size bounds it
            inside = [(k, branches(each)) for k, each in subschemas(schema) if k != "$defs"]
            if "$ref" in schema:
                inside.append(("$ref", branches(resolver.lookup(schema["$ref"]).contents)))
            # Members of a value are judged one each; what applies to the same value adds up.
            deeper = max((count for k, count in inside if k in _DEEPER), default=0)
            known[id(schema)] = 1 + deeper + sum(c for k, c in inside if k not in _DEEPER)
        return known[id(schema)]

    try:
        too_many = branches(document) > _MOST_BRANCHES
    except RecursionError as error:
        raise BadDocumentError("one $ref leads to another too many times") from error
    if too_many:
        raise BadDocumentError(
            f"judging one value could take more than {_MOST_BRANCHES:,} branches: "
            "anyOf, oneOf, allOf and $ref multiply each other"
        )


def document_shape(
    document: JSON, *, max_depth: int, empty: Callable[[], object] | None = None
) -> Shape:
    """Make the shape of a captured document. Its values are plain JSON.

    Args:
        document: What `capture_document` returned.
        max_depth: How many containers may stand inside one another.
        empty: What no value at all means.
    """
    prepared = _Document(make_judge(document, fast_engine()), max_depth, empty)
    return Shape(
        schema=freeze(document),
        flat=False,
        max_depth=max_depth,
        validate=prepared.validate,
        copy=snapshot,
        dump=prepared.dump,
        restore=prepared.dump,
        prove=prepared.dump,
    )


@dataclass(frozen=True, slots=True)
class _Document:
    """The prepared parts of one shape; a value is its own JSON form, so nothing is undone."""

    judge: Judge
    max_depth: int
    empty: Callable[[], object] | None

    def validate(self, raw: object) -> Argument:
        """Return a copy of the value, if it is JSON and keeps to the document.

        Raises:
            ContractViolation: It is not, or does not.
        """
        value = self.dump(self.empty() if raw is None and self.empty else raw)
        try:
            faults = self.judge(value)
        except Exception as error:
            raise violation(INVALID) from error
        if faults:
            raise ContractViolation([{"path": path_text(p), "message": m} for p, m in faults])
        return value

    def dump(self, value: Argument) -> JSON:
        """Return a copy of the value, which is its own JSON form.

        Raises:
            ContractViolation: It is not JSON.
        """
        try:
            return capture(value, self.max_depth)
        except NotJson as error:
            raise violation(error.message, path_text(error.path)) from error
