"""Unknown, unexposed and hidden look the same outside, for any input and any caller (SI-8)."""

from __future__ import annotations

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from capgate import (
    Actor,
    ApprovalRule,
    Engine,
    Pipeline,
    Retry,
    Stage,
    allow,
    deny,
    hide,
    policy,
    public_error,
    requires,
)

DANA = Actor("u_dana", permissions={"orders:read"})
HIDING = ("hide", "deny", "error", "junk")

PAYLOADS = st.sampled_from([None, {}, {"n": 1}, {"n": "x"}, {"m": 1}, "text", 3, [1], object()])
CALLERS = st.sampled_from(
    [
        {},
        {"actor": DANA},
        {"actor": Actor.anonymous()},
        {"actor": "nobody"},
        {"credentials": "good"},
        {"credentials": "bad"},
    ]
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "idempotency_key": st.just("k"),
        "correlation_id": st.just("c"),
        "timeout": st.just(30),
    },
)
FIELDS = st.sampled_from(
    [
        {},
        {"access": "public"},
        {"access": requires("orders:read")},
        {"approval": ApprovalRule()},
        {"retry": Retry(2), "idempotent": True},
        {"max_concurrency": 1},
        {"timeout": 1},
    ]
)


class Refusing(Stage):
    """A stage behind discovery that refuses everybody."""

    name = "refusing"

    def run(self, invocation):
        raise ValueError


def hiding(word, *, later):
    """Make a discovery-phase policy that keeps a capability from view."""

    def now(request):
        if request.capability.id != "hidden":
            return allow()
        if word == "error":
            raise ValueError
        return {"hide": hide(), "deny": deny("Never shown."), "junk": None}[word]

    async def then(request):
        await anyio.lowlevel.checkpoint()
        return now(request)

    return policy("hiding", phases={"discovery"})(then if later else now)


async def authenticate(credentials):
    return DANA if credentials == "good" else None


def world(word, fields, *, later, refuses):
    """Build an engine with a hidden and an unexposed capability."""
    pipeline = Pipeline.default()
    if refuses:
        pipeline = pipeline.after("discovery", Refusing())
    engine = Engine(
        "test",
        pipeline=pipeline,
        policies=[hiding(word, later=later)],
        authenticate=authenticate,
        on_internal_error=lambda _: None,
    )

    async def cap(n: int) -> int:
        """Never reached."""
        raise AssertionError

    engine.capability("hidden", **fields)(cap)
    engine.capability("unexposed", expose={"test"}, **fields)(cap)
    return engine


@settings(deadline=None, max_examples=250)
@given(
    st.sampled_from(HIDING),
    FIELDS,
    PAYLOADS,
    CALLERS,
    OPTIONS,
    st.tuples(st.booleans(), st.booleans()),
)
async def test_missing_looks_like_missing(word, fields, payload, caller, options, flags):
    """Status, public shape and effect are the same for the three, whatever is said and by whom."""
    engine = world(word, fields, later=flags[0], refuses=flags[1])
    replies = []
    for name in ("unknown", "unexposed", "hidden"):
        outcome = await engine.attempt(name, payload, **caller, **options)
        replies.append((outcome.status, public_error(outcome.error), outcome.effect))
    assert replies[0] == replies[1] == replies[2]
    assert replies[0][1]["code"] == "CAPABILITY_NOT_FOUND"


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(HIDING), FIELDS, st.booleans())
async def test_nobody_lists_what_is_missing(word, fields, later):
    """A walk lists neither what is unexposed nor what is hidden."""
    engine = world(word, fields, later=later, refuses=False)
    assert await engine.discover("direct", actor=DANA) == []
