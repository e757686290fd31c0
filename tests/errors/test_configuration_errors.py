"""Construction-time errors: typed issues, all at once."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from types import SimpleNamespace

import pytest

from capgate.errors import (
    CapabilityError,
    CompositionError,
    ConfigurationError,
    Declaration,
    IdCollision,
    ImportIdNotFound,
    ImportInvalid,
    Issue,
    RemapNotSelected,
    is_composition_error,
)

LOCAL = Declaration("local", "orders.refund")
SHIPPED = Declaration("library", "refund", "orders", "1.0")


def collision(effective_id="orders.refund"):
    return IdCollision(effective_id=effective_id, declarations=(LOCAL, SHIPPED))


ISSUES = [
    ImportInvalid(kind="import", reason="a function, not an exported capability"),
    collision("b.late"),
    ImportIdNotFound(library="orders", default_id="gone"),
    collision("A.first"),
    RemapNotSelected(library="orders", default_id="cancel"),
]


def test_a_configuration_error_is_a_type_error_and_nothing_else():
    """Construction never fails with a governed failure."""
    error = ConfigurationError("deps_type is missing")
    assert isinstance(error, TypeError)
    assert not isinstance(error, CapabilityError)
    assert error.issues == (Issue("CONFIGURATION_INVALID", "deps_type is missing"),)
    assert str(error) == "deps_type is missing"


def test_everything_wrong_is_reported_at_once():
    """All issues stand in the error and in its text."""
    issues = [Issue("A", "is missing", "orders.refund"), Issue("B", "is unknown")]
    error = ConfigurationError(iter(issues))
    assert error.issues == tuple(issues)
    assert str(error) == "2 problems:\n- orders.refund: is missing\n- is unknown"


@pytest.mark.parametrize("wrong", [[], [ValueError("x")], ["text"], 5])
def test_an_error_without_issues_is_refused(wrong):
    """A configuration error always says something."""
    with pytest.raises(TypeError) as caught:
        ConfigurationError(wrong)
    assert type(caught.value) is TypeError


def test_issues_are_frozen():
    """Neither the error's issues, nor an issue, nor a declaration can be changed."""
    error = CompositionError([collision()])
    with pytest.raises(AttributeError):
        error.issues = ()
    for value, name in ((error.issues[0], "code"), (LOCAL, "kind")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, "changed")


@pytest.mark.parametrize(
    ("issue", "code", "text"),
    [
        (
            collision(),
            "CAPABILITY_ID_COLLISION",
            (
                "orders.refund: this id is declared more than once:"
                " orders.refund (local), refund (library orders 1.0)"
            ),
        ),
        (
            ISSUES[0],
            "CAPABILITY_IMPORT_INVALID",
            (
                "import: this cannot be imported as a capability:"
                " a function, not an exported capability"
            ),
        ),
        (
            ISSUES[2],
            "CAPABILITY_IMPORT_ID_NOT_FOUND",
            "orders/gone: the library declares no such id",
        ),
        (
            ISSUES[4],
            "CAPABILITY_REMAP_NOT_SELECTED",
            "orders/cancel: this id is renamed but not selected",
        ),
    ],
)
def test_each_composition_issue_has_its_code_and_text(issue, code, text):
    """Four typed issues, each an `Issue`, with their facts as fields."""
    assert isinstance(issue, Issue)
    assert issue.code == code
    assert str(issue) == text


def test_composition_issues_stand_in_a_fixed_order():
    """Collisions first, sorted by code point, then the others as found."""
    error = CompositionError(ISSUES)
    assert isinstance(error, ConfigurationError)
    assert error.code == "CAPABILITY_COMPOSITION_INVALID"
    assert [issue.where for issue in error.issues] == [
        "A.first",
        "b.late",
        "import",
        "orders/gone",
        "orders/cancel",
    ]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
@pytest.mark.parametrize("error", [ConfigurationError("x"), CompositionError(ISSUES)])
def test_construction_errors_copy_and_pickle(error, duplicate):
    """They cross process boundaries with their issues."""
    again = duplicate(error)
    assert type(again) is type(error)
    assert (again.issues, str(again)) == (error.issues, str(error))


@pytest.mark.parametrize(
    "value",
    [
        CompositionError([collision()]),
        SimpleNamespace(code="CAPABILITY_COMPOSITION_INVALID", issues=()),
        SimpleNamespace(code="CAPABILITY_COMPOSITION_INVALID", issues=[collision()]),
    ],
)
def test_a_composition_error_is_recognised_by_shape(value):
    """Also one of a second installed copy."""
    assert is_composition_error(value) is True


class HostileCode(str):
    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError("secret")

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "value",
    [
        None,
        "CAPABILITY_COMPOSITION_INVALID",
        TypeError("x"),
        ConfigurationError("x"),
        SimpleNamespace(code="CAPABILITY_COMPOSITION_INVALID", issues=None),
        SimpleNamespace(code="CAPABILITY_COMPOSITION_INVALID"),
        SimpleNamespace(code=HostileCode("OTHER"), issues=()),
    ],
)
def test_anything_else_is_not_one(value):
    """Another code, or no list of issues, is not a composition error."""
    assert is_composition_error(value) is False


def test_recognition_never_raises():
    """A value that raises when it is read is simply not one."""

    class Hostile:
        def __getattr__(self, name):
            raise RuntimeError("secret")

    assert is_composition_error(Hostile()) is False
