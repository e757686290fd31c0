"""Values with hostile methods: they have a canonical form or none, and raise nothing else."""

from __future__ import annotations

import collections

import pytest

from capgate import canonical_json, input_hash
from capgate.capability import NotJson


def broken(*_args, **_keywords):
    raise RuntimeError("CANARY")


READERS = [
    "__iter__",
    "__getitem__",
    "__len__",
    "__contains__",
    "__class__",
    "__bool__",
    "__getattribute__",
]
MORE = ["keys", "values", "items", "get", "copy", "__reversed__", "__eq__", "__lt__"]
BrokenDict = type("BrokenDict", (dict,), dict.fromkeys([*READERS, *MORE], broken))
BrokenList = type("BrokenList", (list,), dict.fromkeys([*READERS, *MORE], broken))
BrokenText = type("BrokenText", (str,), dict.fromkeys(["__lt__", "__eq__", "__len__"], broken))
BrokenText.__hash__ = str.__hash__


class BrokenMeta(type):
    """A class whose hash breaks."""

    __hash__ = broken


class Unhashable(metaclass=BrokenMeta):
    """Its class cannot be looked up."""


class Classless:
    """Its class cannot be read."""

    __class__ = property(broken)


def test_methods_of_a_subclass_are_never_asked():
    """A dict or list of an own class is written by what it holds, past its methods."""
    value = BrokenDict(b=BrokenList([1, BrokenDict()]), a=None)
    assert canonical_json(value) == b'{"a":null,"b":[1,{}]}'
    assert input_hash(value) == input_hash({"b": [1, {}], "a": None})


def test_ordinary_subclasses_have_their_form():
    """Ordered and default dicts are written like plain ones."""
    ordered = collections.OrderedDict(b=1, a=2)
    assert canonical_json(ordered) == b'{"a":2,"b":1}'
    assert canonical_json(collections.defaultdict(int, a=1)) == b'{"a":1}'


@pytest.mark.parametrize("judge", [canonical_json, input_hash])
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: {"x": v}])
@pytest.mark.parametrize("make", [Unhashable, Classless, lambda: {BrokenText("k"): 1}])
def test_what_breaks_when_looked_at_is_not_json(judge, wrap, make):
    """An object that fails whoever looks at it is refused as NotJson."""
    with pytest.raises(NotJson):
        judge(wrap(make()))
