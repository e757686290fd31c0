"""Documents whose branches multiply: refused at registration, before a value can be judged."""

from __future__ import annotations

import pytest

from capgate import ConfigurationError


async def handler(payload): ...


def doubling(levels, step):
    """Return a document that applies each definition twice by `step` to get to the next."""
    names = [f"d{level}" for level in range(levels)]
    definitions = {name: step({"$ref": f"#/$defs/d{i + 1}"}) for i, name in enumerate(names)}
    definitions[f"d{levels}"] = {"type": "string"}
    return {"type": "object", "$defs": definitions, "properties": {"a": {"$ref": "#/$defs/d0"}}}


STEPS = {
    "anyOf": lambda ref: {"anyOf": [ref, ref]},
    "oneOf": lambda ref: {"oneOf": [ref, ref]},
    "allOf": lambda ref: {"allOf": [ref, {"not": ref}]},
    "members": lambda ref: {"anyOf": [{"properties": {"a": ref}}, {"items": ref}, ref]},
    "beside": lambda ref: {**ref, "if": ref},
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("levels", [20, 60])
def test_doubling_branches_are_refused(contract, step, levels):
    """More than 100,000 branches for one value are a ConfigurationError."""
    with pytest.raises(ConfigurationError, match="100,000 branches"):
        contract(handler, input_schema=doubling(levels, STEPS[step]), output_schema={})


@pytest.mark.parametrize("step", STEPS)
def test_a_few_doublings_are_fine(contract, step):
    """Unions of unions of an ordinary depth are accepted, and judge."""
    document = doubling(4, STEPS[step])
    assert contract(handler, input_schema=document, output_schema={}).validate_input({}) == {}


def test_recursive_documents_are_fine(contract):
    """A syntax tree of many kinds, each holding the others, is accepted."""
    each = {"$ref": "#/$defs/node"}
    kinds = [{"properties": {"kind": {"const": k}, "left": each, "right": each}} for k in range(40)]
    document = {"type": "object", "$defs": {"node": {"anyOf": kinds}}, "properties": {"n": each}}
    value = {"n": {"kind": 1, "left": {"kind": 2}}}
    built = contract(handler, input_schema=document, output_schema={})
    assert built.validate_input(value) == value


def test_members_side_by_side_do_not_multiply(contract):
    """Many fields of the same small union are as cheap as one."""
    fields = {f"f{i}": {"anyOf": [{"type": "string"}, {"type": "null"}]} for i in range(2000)}
    document = {"type": "object", "properties": fields}
    built = contract(handler, input_schema=document, output_schema={})
    assert built.validate_input({"f1": None}) == {"f1": None}
