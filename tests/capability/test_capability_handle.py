"""The handle, the record and the view of a capability."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from capgate import AccessRequest, Actor, ApprovalRule, Library, allow, policy, requires
from capgate.capability import FrozenDict, freeze, thaw


@policy("p")
def judge(request):
    return allow()


def test_both_forms_of_the_decorator_give_a_handle():
    """With and without parentheses, with and without an id, the handle is in the library."""
    library = Library("lib", "1")

    @library.capability
    async def first(a: int) -> int:
        """First."""
        return a

    @library.capability("named.second", title="Second")
    def second(a: int) -> int:
        """Second."""
        return a

    assert list(library.capabilities) == ["first", "named.second"]
    assert library.capabilities["first"] is first
    assert second.handler(3) == 3
    assert (first.definition.is_async, second.definition.is_async) == (True, False)


def test_calling_a_handle_says_what_to_do(declare):
    """Nothing bypasses the engine by accident: the TypeError names the two right ways."""

    def handler(a: int) -> int:
        return a

    handle = declare(handler)
    with pytest.raises(TypeError, match=r"engine\.invoke.*\.handler"):
        handle(1)
    assert handle.handler is handler
    assert repr(handle) == "Capability('cap.one')"


def test_a_handle_cannot_be_changed(declare):
    """A handle is what it was declared as."""
    handle = declare(lambda: None, output_schema={})
    for name in ("handler", "id", "definition", "other"):
        with pytest.raises(AttributeError):
            setattr(handle, name, None)
    with pytest.raises(AttributeError):
        del handle.handler


def test_the_view_is_deep_frozen(declare):
    """What others see of a capability cannot be written to, at any depth (A 235, B 34)."""

    def handler(a: list[int]) -> dict[str, int]: ...

    view = declare(handler, annotations={"a": {"b": [1]}}).definition.view()
    for write in (
        lambda: view.input_schema["properties"].update(x=1),
        lambda: view.input_schema["required"].append("x"),
        lambda: view.output_schema.__setitem__("x", 1),
        view.annotations["a"]["b"].clear,
    ):
        with pytest.raises(TypeError, match="read-only"):
            write()
    with pytest.raises(AttributeError):
        view.expose = frozenset({"mcp"})


def test_frozen_json_reads_like_json():
    """Frozen data compares, serialises, copies and pickles like what it was made from."""
    value = {"a": [1, {"b": None}], "c": "x"}
    frozen = freeze(value)
    value["a"].append(2)
    assert frozen == {"a": [1, {"b": None}], "c": "x"}
    assert json.loads(json.dumps(frozen)) == frozen
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert type(pickle.loads(pickle.dumps(frozen))) is FrozenDict
    assert copy.copy(frozen) is frozen
    for thawed in (copy.deepcopy(frozen), thaw(frozen)):
        assert thawed == frozen
        assert type(thawed) is dict
        thawed["a"].append(5)


WRITES = [
    lambda f: f.__setitem__("a", 1),
    lambda f: f.__delitem__("a"),
    lambda f: f.__ior__({"a": 1}),
    lambda f: f.update(a=1),
    lambda f: f.pop("a"),
    lambda f: f.popitem(),
    lambda f: f.setdefault("z", 1),
    lambda f: f.clear(),
    lambda f: f["a"].__setitem__(0, 1),
    lambda f: f["a"].__delitem__(0),
    lambda f: f["a"].__iadd__([1]),
    lambda f: f["a"].__imul__(2),
    lambda f: f["a"].append(1),
    lambda f: f["a"].extend([1]),
    lambda f: f["a"].insert(0, 1),
    lambda f: f["a"].pop(),
    lambda f: f["a"].remove(1),
    lambda f: f["a"].reverse(),
    lambda f: f["a"].sort(),
    lambda f: f["a"].clear(),
]


@pytest.mark.parametrize("write", WRITES, ids=range(len(WRITES)))
def test_no_way_of_writing_is_forgotten(write):
    """Every method that would change frozen JSON raises and changes nothing."""
    frozen = freeze({"a": [1, 2]})
    with pytest.raises(TypeError):
        write(frozen)
    assert frozen == {"a": [1, 2]}


def plain(a: int) -> int: ...
def other(a: int, b: int = 1) -> int: ...


BASE = {"side_effect": "write", "risk": "low", "policies": [judge], "approval": ApprovalRule()}


@pytest.mark.parametrize(
    "change",
    [
        {"side_effect": "external"},
        {"risk": "high"},
        {"policies": []},
        {"approval": None},
        {"approval": ApprovalRule("manager")},
        {"approval": ApprovalRule(quorum=2)},
        {"approval": ApprovalRule(approvers=requires("x"))},
        {"approval": ApprovalRule(expires_in=5)},
    ],
)
def test_the_fingerprint_is_of_what_an_approval_relies_on(declare, change):
    """Schemas, effect, risk, policies and the approval rule make the fingerprint; words do not."""
    first = declare(plain, **BASE).definition.fingerprint
    assert len(first) == 64
    assert declare(plain, **BASE, title="T", tags={"t"}).definition.fingerprint == first
    assert declare(plain, **(BASE | change)).definition.fingerprint != first
    assert declare(other, **BASE).definition.fingerprint != first


def test_a_permission_rule_reads_permissions_only():
    """requires(…) permits exactly those who have every permission."""
    rule = requires("a", "b")

    def ask(*permissions):
        actor = Actor("u", permissions=permissions)
        return rule(AccessRequest("c", "direct", actor, None, {}, {}))

    assert ask("a", "b", "c") is True
    assert ask("a") is False
    assert rule.permissions == {"a", "b"}
    assert rule == requires("b", "a")
