"""Making a contract from a handler's signature, or from documents given in its place.

Everything slow happens here, at registration. How values are judged later is in the shapes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast

from typing_extensions import is_typeddict

from capgate.capability.admission import admitting
from capgate.capability.contract import Binding, Contract
from capgate.capability.described import BadPartError, described, first_line
from capgate.capability.json_boundary import DEFAULT_DEPTH
from capgate.capability.json_schema import capture_document, document_shape
from capgate.capability.shape import Shape
from capgate.capability.signature import EMPTY, Signature, bare_type, is_root
from capgate.capability.typed import typed_shape
from capgate.errors import JSON, Issue

if TYPE_CHECKING:
    from capgate.capability.core_nodes import Node

ShapeMaker: TypeAlias = Callable[[int], Shape]
T = TypeVar("T")


class Documents(NamedTuple):
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
        issues.append(Issue("CONTRACT_INVALID", first_line(error), where))
        return None


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
        raise BadPartError(f"parameter {names} has no annotation, and there is no input_schema")
    if signature.rest:
        raise BadPartError(
            "**kwargs cannot be described; name the parameters or give an input_schema"
        )


def _root_input(parameter: inspect.Parameter) -> tuple[ShapeMaker, Binding]:
    core, schema = described(parameter.annotation, "validation", f"parameter {parameter.name!r}")
    default: object = parameter.default

    bare = bare_type(parameter.annotation)
    root = None if is_typeddict(bare) else bare
    admit = admitting(lambda: {} if default is EMPTY else default, cast("type | None", root))

    def make(depth: int) -> Shape:
        return typed_shape(core, schema, max_depth=depth, admit=admit)

    return make, Binding(root=parameter.name)


def _field_input(signature: Signature) -> tuple[ShapeMaker, Binding]:
    # All at once is fast; one by one, only to name the parameter that is to blame.
    try:
        core, schema = described(_stub(signature.parameters), "validation", "the signature")
    except BadPartError:
        for each in signature.parameters:
            described(each.annotation, "validation", f"parameter {each.name!r}")
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
        raise BadPartError("the return annotation is missing, and there is no output_schema")
    core, output_schema = described(signature.returns, "serialization", "the return annotation")
    return lambda depth: typed_shape(core, output_schema, max_depth=depth)


def _stub(parameters: tuple[inspect.Parameter, ...]) -> Callable[..., None]:
    """Return a function with just these parameters, for pydantic to read."""

    def call(**_fields: object) -> None: ...

    # pydantic reads the stub instead of the handler: no context, and no trouble with its kinds.
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
            raise BadPartError(f"two parameters are read from {name!r}")
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
        raise BadPartError(
            f"parameter {', '.join(map(repr, missing))} has no default, and the input_schema "
            "does not require it"
        )
    dropped = [] if signature.rest else sorted(set(properties) - names)
    if dropped:
        raise BadPartError(
            f"the handler takes no {', '.join(map(repr, dropped))} of its input_schema"
        )
