"""Junk at the calls of an engine: a clear typed error at once, or a governed failure; no crash."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from capgate import (
    Actor,
    ApprovalRule,
    CapabilityError,
    Completed,
    Engine,
    Failed,
    public_error,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")


class Hostile:
    """An object whose attributes cannot be read."""

    def __getattribute__(self, name):
        raise RuntimeError("secret")


class HostileMapping(dict):
    """A mapping that breaks when it is read."""

    def keys(self):
        raise RuntimeError("secret")

    __iter__ = items = __getitem__ = __len__ = keys


class HostileText(str):
    """A text whose own methods lie or raise."""

    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError("secret")

    def __hash__(self):
        raise RuntimeError("secret")

    def strip(self, *args):
        raise RuntimeError("secret")

    def encode(self, *args):
        raise RuntimeError("secret")


class HostileActor:
    """Claims to be an actor."""

    id = "u_root"
    kind = "user"
    permissions = frozenset({"all"})

    @property
    def __class__(self):
        return Actor


def nested(depth, kind=list):
    """Return containers in containers."""
    value = 1
    for _ in range(depth):
        value = [value] if kind is list else {"n": value}
    return value


def cyclic():
    value = {}
    value["n"] = value
    return value


def world(**settings):
    """Build an engine with the capability `cap`, which notes its runs."""
    audit, ran = MemoryAudit(), []
    engine = Engine("test", audit=audit, on_internal_error=lambda _: None, **settings)

    @engine.capability("cap", approval=None)
    async def cap(n: int | list | dict) -> int:
        """Note that it ran."""
        ran.append(n)
        return 1

    return engine, audit, ran


INPUTS = {
    "int": 3,
    "text": "secret",
    "bytes": b"secret",
    "list": ["secret"],
    "set": {"secret"},
    "object": object(),
    "class": dict,
    "true": True,
    "nan": math.nan,
    "missing": {},
    "wrong": {"n": "secret"},
    "unknown key": {"n": 1, "secret": 1},
    "int key": {1: 1, "n": 1},
    "none key": {None: 1, "n": 1},
    "nan inside": {"n": [math.nan]},
    "infinity inside": {"n": {"a": math.inf}},
    "surrogate": {"n": ["\ud800"]},
    "surrogate key": {"n": {"\ud800": 1}},
    "object inside": {"n": [object()]},
    "bytes inside": {"n": [b"\xff"]},
    "deep list": {"n": nested(100_000)},
    "deep dict": nested(100_000, dict),
    "cycle": cyclic(),
    "hostile": Hostile(),
    "hostile inside": {"n": [Hostile()]},
    "hostile mapping": HostileMapping(n=1),
    "hostile text key": {"n": 1, "hostile": HostileText("n")},
}


@pytest.mark.parametrize("what", INPUTS)
async def test_a_wrong_input_is_input_invalid(what):
    """Whatever is passed as input, it is INPUT_INVALID with value-free issues; nothing runs."""
    engine, audit, ran = world()
    outcome = await engine.attempt("cap", INPUTS[what], actor=DANA)
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, ran) == ("INPUT_INVALID", [])
    shown = public_error(outcome.error)
    assert shown["details"]["issues"]
    assert all(set(issue) == {"path", "message"} for issue in shown["details"]["issues"])
    assert "secret" not in repr([i["message"] for i in shown["details"]["issues"]])
    assert [event.type for event in audit.events] == ["capability.requested", "capability.failed"]


@pytest.mark.parametrize(
    "payload",
    [{"n": 10**5000}, {"n": -(10**5000)}, {"n": list(range(50_000))}, {"n": {"k" * 100_000: 1}}],
    ids=["int", "negative", "list", "key"],
)
async def test_a_huge_input_is_judged_not_feared(payload):
    """A huge value runs or is refused, and never breaks the call or its evidence."""
    engine, audit, ran = world()
    outcome = await engine.attempt("cap", payload, actor=DANA, idempotency_key="k")
    assert isinstance(outcome, Completed) is bool(ran)
    assert ran or outcome.error.code in {"INPUT_INVALID", "IDEMPOTENCY_CONFLICT"}
    assert audit.events[-1].type in {"capability.completed", "capability.failed"}


@pytest.mark.parametrize(
    "actor",
    [3, "u_dana", {"id": "u"}, object(), Actor, HostileActor()],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("access", ["public", "authenticated"])
async def test_a_malformed_actor_is_unauthenticated(actor, access):
    """What is no Actor is UNAUTHENTICATED, for a public capability too; nothing runs (SI-3)."""
    engine, _, ran = world()

    @engine.capability("open", access=access)
    async def open_() -> None:
        """Note that it ran."""
        ran.append(1)

    outcome = await engine.attempt("open", actor=actor)
    assert (outcome.error.code, ran) == ("UNAUTHENTICATED", [])


async def test_a_hostile_actor_is_unauthenticated():
    """An actor object whose attributes raise is UNAUTHENTICATED with the cause kept private."""
    engine, audit, ran = world()
    outcome = await engine.attempt("cap", {"n": 1}, actor=Hostile())
    assert (outcome.error.code, ran) == ("UNAUTHENTICATED", [])
    assert "secret" not in f"{outcome!r}{[event.to_dict() for event in audit.events]}"


OPTIONS = [
    ("surface", [None, 3, b"direct", ["direct"], object()]),
    ("timeout", [0, -1, -0.5, math.nan, math.inf, True, "5", [5], timedelta(0), timedelta(-1)]),
    ("cancel", [3, True, "token", object(), lambda: None]),
    ("correlation_id", ["", "  ", 3, b"c", ["c"], True]),
    ("idempotency_key", ["", "  ", 3, b"k", ["k"], True]),
]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in OPTIONS for value in values]
)
async def test_a_wrong_option_is_a_type_error_at_once(name, value):
    """An option that no call can have is a TypeError that names it, and leaves no trace."""
    engine, audit, ran = world()
    for call in (engine.invoke, engine.attempt):
        with pytest.raises(TypeError, match=name):
            await call("cap", {"n": 1}, actor=DANA, **{name: value})
    assert (audit.events, ran) == ([], [])


@pytest.mark.parametrize(
    "options",
    [
        {"actor": DANA, "credentials": "token"},
        {"credentials": "token"},
        {"unknown": 1},
        {"actor": DANA, "surfaces": "direct"},
    ],
)
async def test_options_that_do_not_fit_are_a_type_error(options):
    """Credentials beside an actor or without an authenticator, and misspelt options: TypeError."""
    engine, audit, _ = world()
    for call in (engine.invoke, engine.attempt, engine.explain):
        with pytest.raises(TypeError):
            await call("cap", {"n": 1}, **options)
    assert audit.events == []


@pytest.mark.parametrize(
    "name", ["", " ", "nope", "cap ", "CAP", "cap\n", "a" * 100_000, "\x00", "../cap", "\ud800"]
)
async def test_a_strange_id_is_missing(name):
    """An id that nothing has is CAPABILITY_NOT_FOUND, however strange; its event is plain JSON."""
    engine, audit, _ = world()
    outcome = await engine.attempt(name, {"n": 1}, actor=DANA)
    assert outcome.error.code == "CAPABILITY_NOT_FOUND"
    assert [event.type for event in audit.events] == ["capability.requested", "capability.denied"]
    assert all(isinstance(event.to_dict()["capability_id"], str) for event in audit.events)


async def test_a_hostile_text_as_an_id_is_contained():
    """A str subclass with hostile methods is a TypeError or missing, never its own exception."""
    engine, _, ran = world()
    with pytest.raises((TypeError, CapabilityError)):
        await engine.invoke(HostileText("cap"), {"n": 1}, actor=DANA)
    for name in ("surface", "correlation_id", "idempotency_key"):
        with pytest.raises((TypeError, CapabilityError)):
            await engine.invoke("cap", {"n": 1}, actor=DANA, **{name: HostileText("direct")})
    assert ran == []


@pytest.mark.parametrize("junk", [None, 3, b"apr", ["apr"], object()])
async def test_a_malformed_approval_id_is_a_type_error(junk):
    """`resume` and the deciding methods take a str: anything else is a TypeError at once."""
    engine, audit, _ = world()
    for call in (engine.resume, engine.attempt_resume, engine.approvals.get):
        with pytest.raises(TypeError):
            await call(junk)
    for call in (engine.approvals.approve, engine.approvals.reject, engine.approvals.withdraw):
        with pytest.raises(TypeError):
            await call(junk, by=DANA)
    assert audit.events == []


@pytest.mark.parametrize("name", ["", "nope", "\ud800", "a" * 100_000, "\x00"])
async def test_a_strange_approval_id_is_missing(name):
    """An approval id that nothing has is APPROVAL_NOT_FOUND everywhere."""
    engine, _, _ = world()
    assert (await engine.attempt_resume(name)).error.code == "APPROVAL_NOT_FOUND"
    for call in (
        engine.approvals.get(name),
        engine.approvals.approve(name, by=DANA),
        engine.approvals.withdraw(name, by=DANA),
    ):
        with pytest.raises(CapabilityError, match="APPROVAL_NOT_FOUND"):
            await call


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("expected_surface", 3),
        ("expected_surface", ["direct"]),
        ("timeout", 0),
        ("timeout", True),
        ("cancel", 3),
        ("unknown", 1),
    ],
)
async def test_a_wrong_option_of_resume_is_a_type_error(name, value):
    """An option that no resume can have is a TypeError at once, and nothing is consumed."""
    engine, _, ran = world()

    @engine.capability("gated", approval=ApprovalRule())
    async def gated() -> int:
        """Note that it ran."""
        ran.append(1)
        return 1

    asked = (await engine.attempt("gated", actor=DANA)).approval
    await engine.approvals.approve(asked.id, by=Actor("u_boss"))
    for call in (engine.resume, engine.attempt_resume):
        with pytest.raises(TypeError, match=name):
            await call(asked.id, **{name: value})
    assert ran == []
    assert await engine.resume(asked.id) == 1
