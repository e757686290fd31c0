"""Failures at the edges of a handler: full queues and odd callables."""

from __future__ import annotations

import functools
import threading

import anyio
import pytest
from pydantic import SecretStr

from capgate import Actor, Context, DomainError, Engine, Limits, public_error
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")


class SoldOutError(DomainError):
    message = "Sold out."


async def test_a_full_queue_of_threads_is_rate_limited():
    """A sync handler that finds no thread and no place to wait is RATE_LIMITED."""
    gate, entered, outcomes = threading.Event(), threading.Event(), []
    audit = MemoryAudit()
    engine = Engine("test", audit=audit, limits=Limits(max_threads=1, max_queue=0))

    @engine.capability("cap")
    def cap() -> int:
        """Hold the only thread."""
        entered.set()
        gate.wait(10)
        return 1

    async def call():
        outcomes.append(await engine.attempt("cap", actor=DANA))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await anyio.to_thread.run_sync(entered.wait, 10)
        await call()
        gate.set()
    error = outcomes[0].error
    assert (error.code, error.stage, error.retryable) == ("RATE_LIMITED", "policy", True)
    assert public_error(error)["code"] == "RATE_LIMITED"
    assert (outcomes[0].effect, outcomes[1].status) == ("none", "completed")


class Odd:
    """Do something with a context."""

    async def __call__(self, ctx: Context, fails: bool = False) -> int:
        """Call on, or fail."""
        if fails:
            raise SoldOutError
        return await ctx.invoke("inner")

    async def method(self, ctx: Context, fails: bool = False) -> int:
        """Call on, or fail."""
        return await self(ctx, fails)


async def with_extra(extra: int, ctx: Context, fails: bool = False) -> int:
    """Call on, or fail."""
    return await Odd()(ctx, fails)


HANDLERS = {
    "object": Odd(),
    "method": Odd().method,
    "partial": functools.partial(with_extra, extra=1),
}


@pytest.mark.parametrize("kind", HANDLERS)
async def test_an_async_callable_of_any_kind_runs_in_the_loop(kind):
    """An async object, bound method or partial is an async handler: `ctx.invoke` works."""
    engine = Engine("test")

    @engine.capability("inner")
    async def inner() -> int:
        """Give seven."""
        return 7

    fields = {"description": "Call on."}
    if kind == "partial":
        fields["input_schema"] = {"type": "object", "properties": {"fails": {"type": "boolean"}}}
    engine.capability("cap", **fields)(HANDLERS[kind])
    assert await engine.invoke("cap", actor=DANA) == 7
    outcome = await engine.attempt("cap", {"fails": True}, actor=DANA)
    assert outcome.error.public_message == "Sold out."


async def test_two_secrets_are_two_inputs():
    """A repeat of a key with another secret is never given the first call's outcome."""
    engine = Engine("test")

    @engine.capability("cap")
    async def cap(secret: SecretStr) -> int:
        """Tell the length."""
        return len(secret.get_secret_value())

    options = {"actor": DANA, "idempotency_key": "k"}
    await engine.attempt("cap", {"secret": "a"}, **options)
    again = await engine.attempt("cap", {"secret": "bbb"}, **options)
    assert getattr(again, "replayed", False) is False
    assert again.status == "failed" or again.output == 3
