"""Approver rules travel as references and come back only when this process knows them."""

from __future__ import annotations

import functools
import json

import pytest

from capgate.approvals import RuleBook
from capgate.approvals.rules import _MAX_LOCAL
from capgate.capability import requires


def only_ops(request) -> bool:
    return request.actor.id == "ops"


@functools.wraps(only_ops)
def wrapped(request) -> bool:
    return True


def make(answer: bool):
    def rule(request) -> bool:
        return answer

    return rule


def test_permissions_are_written_out():
    """`requires(...)` needs no registration anywhere else."""
    reference = RuleBook().register(requires("b", "a"))
    assert reference == {"requires": ["a", "b"]}
    rule = RuleBook().resolve(reference)
    assert rule.permissions == frozenset({"a", "b"})


def test_a_function_is_known_by_name_only_where_it_is_registered():
    """A name in a record imports nothing: another process has to register the rule."""
    book = RuleBook()
    reference = book.register(only_ops)
    assert reference == {"rule": f"{__name__}:only_ops"}
    assert book.resolve(json.loads(json.dumps(reference))) is only_ops
    assert RuleBook().resolve(reference) is None


def test_two_closures_of_one_name_are_not_confused():
    """SI-4: the rule that was asked for is the rule that is evaluated."""
    book = RuleBook()
    yes, no = make(answer=True), make(answer=False)
    first, second = book.register(yes), book.register(no)
    assert first != second
    assert book.resolve(first) is yes
    assert book.resolve(second) is no
    assert book.register(yes) == first


def test_a_copy_of_a_name_is_not_its_original():
    """functools.wraps copies the name; the reference does not follow it."""
    book = RuleBook()
    copied, original = book.register(wrapped), book.register(only_ops)
    assert book.resolve(copied) is wrapped
    assert book.resolve(original) is only_ops


def test_a_closure_with_an_owner_is_the_same_in_every_process():
    """A capability that declares a lambda can have it approved after a restart."""
    before, after = RuleBook(), RuleBook()
    rule = make(answer=True)
    reference = before.register(make(answer=True), owner="orders.refund")
    after.register(rule, owner="orders.refund")
    after.register(make(answer=False), owner="orders.ship")
    assert after.resolve(reference) is rule


def test_a_declared_rule_keeps_its_reference_wherever_it_is_asked_for():
    """The gate need not know who declared a rule, nor under which prefix."""
    book, rule = RuleBook(), make(answer=True)
    reference = book.register(rule, owner="orders.refund")
    assert book.register(rule) == reference
    assert book.register(rule, owner="shop.orders.refund") == reference


def test_a_second_rule_of_one_name_and_owner_does_not_replace_the_first():
    """SI-4: a rule made later never answers for the one that was asked for."""
    book, first, second = RuleBook(), make(answer=False), make(answer=True)
    references = [book.register(rule, owner="orders.refund") for rule in (first, second)]
    assert [book.resolve(reference) for reference in references] == [first, second]


def test_closures_are_forgotten_before_they_fill_the_memory():
    """A policy may make a rule on every call; forgotten rules entitle nobody."""
    book = RuleBook()
    unused, kept = book.register(make(answer=True)), make(answer=True)
    reference = book.register(kept)
    for _ in range(_MAX_LOCAL):
        book.register(make(answer=True))
        book.register(kept)
    assert book.resolve(unused) is None
    assert book.resolve(reference) is kept


class Callable_:  # noqa: N801  a rule may be any callable
    def __call__(self, request) -> bool:
        return True

    def method(self, request) -> bool:
        return True


@pytest.mark.parametrize(
    "rule", [Callable_(), Callable_().method, functools.partial(only_ops), lambda r: True]
)
def test_any_callable_may_be_a_rule(rule):
    """Instances, methods and partials come back as they were."""
    book = RuleBook()
    assert book.resolve(book.register(rule)) is rule


def test_what_is_no_rule_is_refused():
    """A rule must be callable."""
    with pytest.raises(TypeError):
        RuleBook().register("authenticated")


@pytest.mark.parametrize(
    "reference",
    [
        None,
        "tests:only_ops",
        [],
        {},
        {"requires": []},
        {"requires": "admin"},
        {"requires": [1]},
        {"requires": ["a", " "]},
        {"rule": "os:system"},
        {"rule": ["x"]},
        {"rule": "x", "local": "guess"},
        {"rule": "x", "owner": None},
        {"requires": ["a"], "rule": "x"},
    ],
)
def test_a_malformed_reference_resolves_to_nothing(reference):
    """SI-7: nothing that a store makes up becomes a rule."""
    book = RuleBook()
    book.register(only_ops)
    assert book.resolve(reference) is None
