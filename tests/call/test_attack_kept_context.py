"""A context that was kept beyond its call: it starts nothing any more."""

from __future__ import annotations

import pytest

from capgate import Context, Engine


@pytest.fixture
def kept():
    """Return an engine, the contexts its `outer` got, and what `outer` left behind."""
    engine, contexts, ran = Engine("kept"), [], []

    @engine.capability("inner", access="public")
    async def inner() -> str:
        """Do the inner thing."""
        ran.append("inner")
        return "inner"

    @engine.capability("outer", access="public")
    async def outer(ctx: Context, fail: bool = False) -> str:
        """Keep the context."""
        contexts.append((ctx, ctx.attempt("inner")))
        if fail:
            raise ValueError
        return await ctx.invoke("inner")

    return engine, contexts, ran


@pytest.mark.parametrize("fail", [False, True])
async def test_a_kept_context_starts_nothing(kept, fail):
    """After the end, well or badly, `invoke`, `attempt` and `progress` refuse at once."""
    engine, contexts, ran = kept
    await engine.attempt("outer", {"fail": fail})
    (ctx, late), before = contexts[0], list(ran)
    calls = [lambda: ctx.invoke("inner"), lambda: ctx.attempt("inner"), lambda: ctx.progress(1)]
    for call in calls:
        with pytest.raises(RuntimeError, match="the call has ended"):
            call()
    late.close()
    assert ran == before


async def test_a_nested_call_that_was_not_awaited_in_time_does_not_start(kept):
    """What `attempt` returned during the call is refused when it is awaited after its end."""
    engine, contexts, ran = kept
    await engine.attempt("outer", {"fail": True})
    with pytest.raises(RuntimeError, match="the call has ended"):
        await contexts[0][1]
    assert ran == []
