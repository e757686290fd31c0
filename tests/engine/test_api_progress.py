"""Progress of a handler: told to who follows the call, and no concern of its outcome."""

from __future__ import annotations

import anyio
import pytest

from capgate import Actor, Context, Engine, Limits
from capgate.call import follow_progress

DANA = Actor("u_dana")


def world():
    """Build an engine whose handler tells its progress twice."""
    engine = Engine(
        "test", limits=Limits(policy_timeout=0.05), on_internal_error=lambda error: None
    )

    @engine.capability("cap", timeout=0.5)
    async def cap(ctx: Context) -> int:
        """Tell how far it is."""
        await ctx.progress(1, 2, "half")
        await ctx.progress(2)
        return 1

    return engine


async def test_progress_reaches_the_follower():
    """A follower is told the execution, what is done, the total and the message, in order."""
    told = []

    async def follow(progress):
        told.append(progress)

    with follow_progress(follow):
        outcome = await world().attempt("cap", actor=DANA)
    assert [tuple(each) for each in told] == [
        (outcome.execution_id, 1, 2, "half"),
        (outcome.execution_id, 2, None, None),
    ]


async def test_without_a_follower_nothing_happens():
    """A handler may tell its progress to nobody."""
    assert await world().invoke("cap", actor=DANA) == 1


async def raises(progress):
    raise OSError("client is gone")


async def hangs(progress):
    await anyio.sleep_forever()


@pytest.mark.parametrize("follower", [raises, hangs])
async def test_a_broken_follower_changes_no_outcome(follower):
    """A follower that raises or hangs does not fail the handler: progress is observational."""
    with follow_progress(follower):
        assert await world().invoke("cap", actor=DANA) == 1


@pytest.mark.parametrize("verb", ["progress", "invoke", "attempt"])
async def test_a_sync_handler_cannot_await(verb):
    """In a synchronous handler the async methods are a clear TypeError."""
    engine = Engine("test", on_internal_error=lambda error: None)

    @engine.capability("cap")
    def cap(ctx: Context) -> str:
        """Try to call an async method."""
        try:
            getattr(ctx, verb)("cap")
        except TypeError as error:
            return str(error)
        return "no error"

    assert "synchronous" in await engine.invoke("cap", actor=DANA)
