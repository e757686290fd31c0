"""Contracts for the tests of this room, and values that misbehave."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from capgate.capability import ContractViolation, Library


@pytest.fixture
def declare():
    """Declare one capability of a fresh library; returns its handle."""

    def build(handler, **options):
        options.setdefault("description", "Does something.")
        return Library("lib", "1").capability("cap.one", **options)(handler)

    return build


@pytest.fixture
def contract(declare):
    """Return the contract of a handler."""

    def build(handler, **options):
        return declare(handler, **options).definition.contract

    return build


@pytest.fixture
def accepts(contract):
    """Return the contract of one input field `x` of a type, with that type as output too."""

    def build(kind):
        def handler(x): ...

        handler.__annotations__ = {"x": kind, "return": kind}
        return contract(handler)

    return build


@pytest.fixture
def issues():
    """Return what a refused value is told; fails when it is not refused."""

    def refuse(judge, value):
        with pytest.raises(ContractViolation) as caught:
            judge(value)
        return caught.value.issues

    return refuse


class Raises:
    """Every attribute raises, `__class__` too."""

    def __getattribute__(self, name):
        raise RuntimeError("CANARY")


class Liar:
    """Says it is a dict."""

    __class__ = dict


class BrokenMapping(Mapping):
    """A mapping whose access raises."""

    def __getitem__(self, key):
        raise RuntimeError("CANARY")

    def __iter__(self):
        raise RuntimeError("CANARY")

    def __len__(self):
        raise RuntimeError("CANARY")


def deep(levels):
    """Return lists inside one another."""
    value = 1
    for _ in range(levels):
        value = [value]
    return value


def cyclic():
    """Return a list that holds itself."""
    value = []
    value.append(value)
    return value


@pytest.fixture
def hostile():
    """Values that misbehave, by name."""
    return {
        "raises": Raises(),
        "liar": Liar(),
        "broken-mapping": BrokenMapping(),
        "cyclic": cyclic(),
        "deep": deep(100_000),
        "object": object(),
        "function": len,
        "nan": float("nan"),
        "infinity": float("-inf"),
        "surrogate": "a\ud800",
    }


HOSTILE = [
    "raises",
    "liar",
    "broken-mapping",
    "cyclic",
    "deep",
    "object",
    "function",
    "nan",
    "infinity",
    "surrogate",
]


@pytest.fixture(params=HOSTILE)
def hostile_value(request, hostile):
    """One value that misbehaves."""
    return hostile[request.param]
