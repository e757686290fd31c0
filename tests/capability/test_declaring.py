"""The fields of a declaration: defaults, rules, and all problems at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from capgate import (
    ApprovalRule,
    ConfigurationError,
    DomainError,
    Library,
    Redact,
    Retry,
    allow,
    combine,
    policy,
    requires,
)


@policy("one")
def one(request):
    return allow()


@policy("two")
def two(request):
    return allow()


class Rejected(DomainError):
    code = "REJECTED"
    message = "Rejected."


def handler(a: int) -> int:
    return a


handler.__doc__ = """First paragraph
    goes on.

    The rest is for people.
    """


@pytest.fixture
def define():
    """Return the record of `handler` with options."""

    def build(capability_id=None, **options):
        return Library("lib", "1").capability(capability_id, **options)(handler).definition

    return build


@pytest.fixture
def refused(define):
    """Return what is said about options."""

    def refuse(capability_id=None, **options):
        with pytest.raises(ConfigurationError) as caught:
            define(capability_id, **options)
        return caught.value

    return refuse


def test_the_defaults(define):
    """What is not said has the documented default: deny by default, a medium-risk write (SI-1)."""
    made = define()
    assert (made.id, made.title, made.expose) == ("handler", None, frozenset({"direct"}))
    assert (made.side_effect, made.risk, made.access) == ("write", "medium", "authenticated")
    assert (made.timeout, made.retry, made.max_concurrency) == (None, None, None)
    assert (made.approval, made.redact, made.idempotent) == (None, None, False)
    assert (made.policies, made.errors, made.tags) == ((), (), frozenset())
    assert made.annotations == made.adapters == {}


def test_the_first_paragraph_is_the_description(define):
    """The docstring's first paragraph, on one line, is what models read; `description` wins."""
    assert define().description == "First paragraph goes on."
    assert define(description="Other.").description == "Other."


def test_all_fields_are_kept(define):
    """Every field that is given is on the record, durations in seconds."""
    rule, again = ApprovalRule("manager"), Retry(3)
    made = define(
        "a.b-c_d.0", title="T", expose=["mcp", "direct"], side_effect="read", risk="low",
        access=requires("x"), timeout=timedelta(minutes=1), retry=again, max_concurrency=2,
        approval=rule, policies=[one, combine("both", two)], errors=[Rejected], tags={"t"},
        annotations={"a": [1]}, adapters={"mcp": {"x": None}}, redact=Redact(),
    )  # fmt: skip
    assert (made.id, made.timeout, made.retry, made.approval) == ("a.b-c_d.0", 60.0, again, rule)
    assert made.expose == {"mcp", "direct"}
    assert made.errors == (Rejected,)
    assert [each.name for each in made.policies] == ["one", "both"]
    assert made.annotations == {"a": [1]}


@pytest.mark.parametrize(
    "bad", ["", "A", "a b", "a..b", ".a", "a.", "-a", "_a", "a/b", "é", "a\n", "x" * 129, 5, b"a"]
)
def test_an_id_has_a_grammar(refused, bad):
    """Ids are dotted segments of [a-z0-9][a-z0-9_-]*, at most 128 characters (B 26, 28)."""
    assert any(each.where.endswith(".id") for each in refused(bad).issues)


def test_an_id_may_have_128_characters(define):
    """The longest id that is allowed is allowed."""
    assert define("x" * 128).id == "x" * 128


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"description": " "}, "description"),
        ({"description": 42}, "description"),
        ({"title": ""}, "title"),
        ({"expose": "mcp"}, "expose"),
        ({"expose": {"A B"}}, "expose"),
        ({"expose": [1]}, "expose"),
        ({"expose": None}, "expose"),
        ({"side_effect": "writes"}, "side_effect"),
        ({"side_effect": ["write"]}, "side_effect"),
        ({"risk": None}, "risk"),
        ({"access": "admin"}, "access"),
        ({"access": "Public"}, "access"),
        ({"access": None}, "access"),
        ({"access": True}, "access"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": timedelta(0)}, "timeout"),
        ({"max_concurrency": 0}, "max_concurrency"),
        ({"max_concurrency": 1.5}, "max_concurrency"),
        ({"max_concurrency": True}, "max_concurrency"),
        ({"idempotent": 1}, "idempotent"),
        ({"retry": 3}, "retry"),
        ({"approval": True}, "approval"),
        ({"approval": {"required": True}}, "approval"),
        ({"redact": len}, "redact"),
        ({"policies": [len]}, "policies"),
        ({"policies": one}, "policies"),
        ({"policies": [one, two, one]}, "policies"),
        ({"policies": [one, combine("both", one)]}, "policies"),
        ({"errors": [ValueError]}, "errors"),
        ({"errors": [Rejected()]}, "errors"),
        ({"errors": Rejected}, "errors"),
        ({"tags": "tag"}, "tags"),
        ({"tags": [""]}, "tags"),
        ({"annotations": []}, "annotations"),
        ({"annotations": {"a": {1}}}, "annotations"),
        ({"adapters": {1: 2}}, "adapters"),
        ({"input_schema": "x"}, "input_schema"),
        ({"aproval": ApprovalRule()}, "aproval"),
    ],
)
def test_a_wrong_field_is_named(refused, options, where):
    """Each rule refuses at the decorator, and says which field (A 224, 225, 234; B 19-24)."""
    assert f"handler.{where}" in {each.where for each in refused(**options).issues}


def test_everything_wrong_is_said_at_once():
    """Problems of the handler, the contract and the fields come in one error (A 229)."""

    def bad(a, *b: int): ...

    with pytest.raises(ConfigurationError) as caught:
        Library("lib", "1").capability("X", timout=1, risk="huge", retry=Retry(2))(bad)
    wheres = {each.where for each in caught.value.issues}
    assert wheres >= {"X.timout", "X.id", "X.risk", "X.retry", "X.description", "X.handler"}


def test_contract_problems_come_with_the_others():
    """A bad parameter, a bad result and a bad field are one error with three issues."""

    def bad(a):
        """Bad."""

    with pytest.raises(ConfigurationError) as caught:
        Library("lib", "1").capability("x", timeout=0)(bad)
    assert {each.where for each in caught.value.issues} == {"x.timeout", "x.input", "x.output"}


@pytest.mark.parametrize("surface", ["tools", "mcp", "http", "cli", "workflow", "batch"])
def test_effects_must_be_said_where_others_can_reach(refused, define, surface):
    """Beyond direct and test, side effect and risk must be given explicitly (A 223)."""
    found = {each.where for each in refused(expose={surface}).issues}
    assert found == {"handler.side_effect", "handler.risk"}
    assert define(expose={surface}, side_effect="write", risk="medium").expose == {surface}


def test_staged_is_reachable_nowhere(define):
    """An empty set of surfaces is allowed: declared, and reachable nowhere."""
    assert define(expose=set()).expose == frozenset()
    assert define(expose={"direct", "test"}).risk == "medium"


@pytest.mark.parametrize("effect", ["write", "destructive", "external", None])
def test_writes_are_tried_again_only_when_idempotent(refused, define, effect):
    """SI-11: retry on a write-like capability needs idempotent=True (A 226)."""
    options = {"retry": Retry(2)} | ({"side_effect": effect} if effect else {})
    assert refused(**options).issues[0].where == "handler.retry"
    assert define(**options, idempotent=True).retry.attempts == 2


@pytest.mark.parametrize("effect", ["none", "read"])
def test_reads_may_be_tried_again(define, effect):
    """SI-11: what changes nothing may be retried."""
    assert define(retry=Retry(2), side_effect=effect).idempotent is False


def test_declared_json_is_captured(define):
    """Changing annotations, tags or policies afterwards changes nothing (B 10, 11, A 235)."""
    annotations, policies, tags = {"a": [1]}, [one], {"t"}
    made = define(annotations=annotations, policies=policies, tags=tags)
    annotations["a"].append(2)
    policies.append(two)
    tags.add("u")
    assert (made.annotations, made.policies, made.tags) == ({"a": [1]}, (one,), {"t"})
    with pytest.raises(TypeError):
        made.annotations["a"].append(3)


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (lambda: Retry(1), "retry.attempts"),
        (lambda: Retry(True), "retry.attempts"),
        (lambda: Retry(2.0), "retry.attempts"),
        (lambda: Retry(2, backoff=0), "retry.backoff"),
        (lambda: Retry(2, max_backoff=float("inf")), "retry.max_backoff"),
        (lambda: Retry(2, when=True), "retry.when"),
        (lambda: ApprovalRule(""), "approval.type"),
        (lambda: ApprovalRule(reason=5), "approval.reason"),
        (lambda: ApprovalRule(expires_in=-1), "approval.expires_in"),
        (lambda: ApprovalRule(approvers="public"), "approval.approvers"),
        (lambda: ApprovalRule(allow_self=1), "approval.allow_self"),
        (lambda: ApprovalRule(quorum=0), "approval.quorum"),
        (lambda: Redact(output=1), "redact.output"),
        (lambda: Redact(approval_input="x"), "redact.approval_input"),
    ],
)
def test_a_value_is_checked_where_it_is_made(make, where):
    """Retry, ApprovalRule and Redact refuse what makes no sense, by field."""
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert [each.where for each in caught.value.issues] == [where]


def test_durations_may_be_timedeltas():
    """Durations are brought to seconds."""
    assert Retry(2, backoff=timedelta(seconds=2)).backoff == 2.0
    assert ApprovalRule(expires_in=timedelta(hours=1)).expires_in == 3600.0


@pytest.mark.parametrize("bad", [(), ("",), (1,), ("a", None)])
def test_requires_names_permissions(bad):
    """A rule without permissions would let everyone in; it is refused."""
    with pytest.raises(ConfigurationError):
        requires(*bad)
