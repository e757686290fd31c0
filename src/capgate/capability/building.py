"""Making a contract from a handler's signature, or from documents given in its place.

Everything slow happens here, at registration. How values are judged later is in the shapes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Never, TypeAlias, TypeVar, cast

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import is_typeddict

from capgate.capability.admission import admitting
from capgate.capability.contract import Binding, Contract
from capgate.capability.frozen import FrozenDict, freeze
from capgate.capability.issues import path_text
from capgate.capability.json_boundary import DEFAULT_DEPTH, NotJson, capture
from capgate.capability.json_schema import capture_document, document_shape
from capgate.capability.metaschema import check_schema
from capgate.capability.shape import Shape
from capgate.capability.signature import EMPTY, Signature, bare_type, is_root
from capgate.capability.typed import typed_shape
from capgate.errors import JSON, Issue

if TYPE_CHECKING:
    from capgate.capability.core_nodes import Node

ShapeMaker: TypeAlias = Callable[[int], Shape]
T = TypeVar("T")

_SCHEMA_DEPTH: Final = 200


class _BadPart(TypeError):
    """A parameter, a result or a document that no contract can be made of."""


class _Methods(dict[str, Any]):
    """Looks a generator's methods up when they are needed; pydantic makes all of them at once."""

    def __init__(self, generator: GenerateJsonSchema) -> None:
        super().__init__()
        self._generator = generator

    def __missing__(self, kind: str) -> Any:
        method = self[kind] = getattr(self._generator, f"{kind.replace('-', '_')}_schema")
        return method


class _Schemas(GenerateJsonSchema):
    """What pydantic would only warn about is a mistake in a contract."""

    def build_schema_type_to_method(self) -> dict[Any, Any]:
        """Prepare lazily: half of the time a schema takes would be spent on this."""
        return _Methods(self)

    def emit_warning(self, kind: str, detail: str) -> Never:
        """Refuse, instead of writing a schema that says something else."""
        raise _BadPart(detail)


@dataclass(frozen=True, slots=True)
class Documents:
    """The JSON Schema documents that stand in for annotations; None: there is none."""

    input: object = None
    output: object = None


def make_contract(
    signature: Signature, documents: Documents, max_depth: int = DEFAULT_DEPTH
) -> tuple[Contract | None, list[Issue]]:
    """Make a handler's contract, or say everything that is wrong with it."""
    issues: list[Issue] = []
    made_input = _attempt(lambda: _input(signature, documents.input), "input", issues)
    made_output = _attempt(lambda: _output(signature, documents.output), "output", issues)
    if made_input is None or made_output is None:
        return None, issues
    make_input, binding = made_input

    def build(depth: int) -> Contract:
        return Contract(make_input(depth), made_output(depth), binding, rebuild=build)

    return _attempt(lambda: build(max_depth), "contract", issues), issues


def _attempt(make: Callable[[], T], where: str, issues: list[Issue]) -> T | None:
    try:
        return make()
    except Exception as error:
        issues.append(Issue("CONTRACT_INVALID", _first_line(error), where))
        return None


def _first_line(error: Exception) -> str:
    if isinstance(error, NotJson):
        return f"its JSON Schema is not JSON at {path_text(error.path)!r}: {error.message}"
    return str(error).partition("\n")[0] or type(error).__name__


def _input(signature: Signature, document: object) -> tuple[ShapeMaker, Binding]:
    if document is not None:
        schema = capture_document(document, need_object=True)
        binding = _bind_document(signature, schema)
        return lambda depth: document_shape(schema, max_depth=depth, empty=dict), binding
    _check_annotated(signature)
    if len(signature.parameters) == 1 and is_root(signature.parameters[0].annotation):
        return _root_input(signature.parameters[0])
    return _field_input(signature)


def _check_annotated(signature: Signature) -> None:
    bare = [each.name for each in signature.parameters if each.annotation is EMPTY]
    if bare:
        names = ", ".join(map(repr, bare))
        raise _BadPart(f"parameter {names} has no annotation, and there is no input_schema")
    if signature.rest:
        raise _BadPart("**kwargs cannot be described; name the parameters or give an input_schema")


def _root_input(parameter: inspect.Parameter) -> tuple[ShapeMaker, Binding]:
    core, schema = _typed(parameter.annotation, "validation", f"parameter {parameter.name!r}")
    default: object = parameter.default

    bare = bare_type(parameter.annotation)
    root = None if is_typeddict(bare) else bare
    admit = admitting(lambda: {} if default is EMPTY else default, cast("type | None", root))

    def make(depth: int) -> Shape:
        return typed_shape(core, schema, max_depth=depth, admit=admit)

    return make, Binding(root=parameter.name)


def _field_input(signature: Signature) -> tuple[ShapeMaker, Binding]:
    try:
        core, schema = _typed(_stub(signature.parameters), "validation", "the signature")
    except _BadPart:
        for each in signature.parameters:
            _typed(each.annotation, "validation", f"parameter {each.name!r}")
        raise
    keywords = _keywords(core)

    def make(depth: int) -> Shape:
        return typed_shape(keywords, schema, max_depth=depth, admit=admitting(dict, None))

    return make, Binding()


def _output(signature: Signature, document: object) -> ShapeMaker:
    if document is not None:
        schema = capture_document(document, need_object=False)
        return lambda depth: document_shape(schema, max_depth=depth)
    if signature.returns is EMPTY:
        raise _BadPart("the return annotation is missing, and there is no output_schema")
    core, described = _typed(signature.returns, "serialization", "the return annotation")
    return lambda depth: typed_shape(core, described, max_depth=depth)


def _typed(annotation: Any, mode: Any, what: str) -> tuple[Node, FrozenDict]:
    """Return pydantic's core schema of a type, and its JSON Schema, checked and frozen."""
    try:
        adapter = TypeAdapter[Any](annotation)
        schema = capture(adapter.json_schema(mode=mode, schema_generator=_Schemas), _SCHEMA_DEPTH)
    except Exception as error:
        raise _BadPart(f"{what} cannot be described: {_first_line(error)}") from error
    schema = _resolved_root(schema)
    check_schema(schema)
    core: Any = adapter.core_schema
    return core, freeze(schema)


def _resolved_root(schema: JSON) -> JSON:
    """Give the root its own keywords, where pydantic refers to a definition."""
    reference = schema.get("$ref", "")
    name = reference.removeprefix("#/$defs/")
    if name == reference:
        return schema
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    return {**schema["$defs"][name], **rest}


def _stub(parameters: tuple[inspect.Parameter, ...]) -> Callable[..., None]:
    """Return a function with just these parameters, for pydantic to read."""

    def call(**_fields: object) -> None: ...

    only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    vars(call)["__signature__"] = inspect.Signature(only)
    return call


def _keywords(core: Node) -> Node:
    """Turn the schema of a call into one whose value is the dict of keyword arguments."""
    if core["type"] == "definitions":
        return {**core, "schema": _keywords(core["schema"])}
    arguments: list[Node] = core["arguments_schema"]["arguments_schema"]
    _check_aliases(arguments)
    fields = {each["name"]: _field(each) for each in arguments}
    return {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid"}


def _check_aliases(arguments: list[Node]) -> None:
    """An approval is of what was sent: each field must be written under a name of its own."""
    seen: set[str] = set()
    for each in arguments:
        name = each.get("alias", each["name"])
        if isinstance(name, str) and name in seen:
            raise _BadPart(f"two parameters are read from {name!r}")
        seen.add(str(name))


def _field(argument: Node) -> Node:
    schema = argument["schema"]
    field: Node = {
        "type": "typed-dict-field",
        "schema": schema,
        "required": schema["type"] != "default",
    }
    alias = argument.get("alias")
    if alias is not None:
        field["validation_alias"] = alias
    if isinstance(alias, str):
        field["serialization_alias"] = alias
    return field


def _bind_document(signature: Signature, schema: JSON) -> Binding:
    """Hand a document's object over: whole to one mapping parameter, else field by field."""
    properties: JSON = schema.get("properties", {})
    parameters = signature.parameters
    if len(parameters) == 1 and not signature.rest:
        only = parameters[0]
        if only.name not in properties and _takes_all(only.annotation):
            return Binding(root=only.name)
    _check_fields(signature, properties, set(schema.get("required", [])))
    return Binding(names=None if signature.rest else frozenset(p.name for p in parameters))


def _takes_all(annotation: object) -> bool:
    bare: Any = bare_type(annotation)
    return bare in {dict, Mapping, object, Any, EMPTY}


def _check_fields(signature: Signature, properties: Mapping[str, JSON], required: set[str]) -> None:
    names = {each.name for each in signature.parameters}
    unfilled = [p.name for p in signature.parameters if p.default is EMPTY]
    missing = [name for name in unfilled if name not in required]
    if missing:
        raise _BadPart(
            f"parameter {', '.join(map(repr, missing))} has no default, and the input_schema "
            "does not require it"
        )
    dropped = [] if signature.rest else sorted(set(properties) - names)
    if dropped:
        raise _BadPart(f"the handler takes no {', '.join(map(repr, dropped))} of its input_schema")
