"""Values that raise, lie or never end are refused, and what they say stays private (SI-9)."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from pydantic import BaseModel, computed_field
from typing_extensions import TypedDict

from capgate.capability import ContractViolation

DOCUMENT = {"type": "object", "properties": {"x": {}}, "required": ["x"]}


class Model(BaseModel):
    a: int


class Keys(TypedDict):
    a: int


KINDS = [int, str, float, list[int], dict[str, int], Model, Keys, Model | str, Any]


@pytest.fixture(autouse=True)
def nothing_unraisable(monkeypatch):
    """Fail when something is reported where no caller looks."""
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    yield
    assert reported == []


def refused(judge, value):
    with pytest.raises(ContractViolation) as caught:
        judge(value)
    assert "CANARY" not in str(caught.value) + repr(caught.value) + str(caught.value.issues)
    assert caught.value.issues


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_field_is_refused(contract, hostile, kind):
    """SI-9: a hostile value in a field of any type is a violation without its text."""

    def handler(x, y: int = 1): ...

    handler.__annotations__ = {"x": kind, "y": int, "return": kind}
    made = contract(handler)
    for value in hostile.values():
        refused(made.validate_input, {"x": value})
        refused(made.validate_output, value)


def test_a_hostile_root_is_refused(contract, hostile_value):
    """SI-9: a hostile value in place of the whole input is a violation without its text."""

    def by_fields(x: int) -> None: ...
    def by_model(m: Model) -> None: ...
    def by_keys(m: Keys) -> None: ...
    def by_document(x): ...

    for handler in (by_fields, by_model, by_keys):
        refused(contract(handler).validate_input, hostile_value)
    options = {"input_schema": DOCUMENT, "output_schema": {"type": "object"}}
    made = contract(by_document, **options)
    refused(made.validate_input, hostile_value)
    refused(made.validate_output, hostile_value)


def test_a_hostile_value_under_a_document_is_refused(contract, hostile_value):
    """SI-9: an open document lets nothing through that is not JSON."""

    def handler(x): ...

    made = contract(handler, input_schema=DOCUMENT, output_schema={})
    refused(made.validate_input, {"x": hostile_value})
    refused(made.validate_output, hostile_value)


def test_a_property_that_raises_is_refused(accepts):
    """SI-9: an output whose computed field raises is withheld, the exception its private cause."""

    class Loud(BaseModel):
        a: int = 1

        @computed_field
        @property
        def loud(self) -> int:
            raise RuntimeError("CANARY")

    with pytest.raises(ContractViolation) as caught:
        accepts(list[Loud]).validate_output([Loud()])
    assert caught.value.issues == [{"path": "", "message": "Has no JSON form."}]
    assert caught.value.__cause__ is not None


def test_a_hostile_object_deep_in_containers_is_found(contract):
    """SI-9: an object that raises is found inside lists and dicts before pydantic asks it."""

    class Raises:
        def __getattribute__(self, name):
            raise RuntimeError("CANARY")

    def handler(x: dict[str, list[Model]]) -> None: ...

    refused(contract(handler).validate_input, {"x": {"a": [{"a": 1}, Raises()]}})


def test_a_dict_that_raises_when_read_is_refused(contract):
    """SI-9: overridden access of a dict subclass cannot put its text anywhere (reference B 122)."""

    class Tricky(dict):
        def items(self):
            raise RuntimeError("CANARY")

    def handler(x: dict[str, int]) -> None: ...

    refused(contract(handler).validate_input, {"x": Tricky(a=1)})
