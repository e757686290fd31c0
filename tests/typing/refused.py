"""What both checkers refuse: each line marked `refused` is an error for both. Never run."""

from __future__ import annotations

from pydantic import BaseModel

from capgate import (
    Actor,
    CancelToken,
    Completed,
    Context,
    Engine,
    Library,
    Limits,
    PolicyRequest,
    Retry,
    allow,
    policy,
)


class Deps:
    url: str


class Order(BaseModel):
    id: str


class Other(BaseModel):
    id: str


engine = Engine("shop", deps_type=Deps)
library = Library("lib", "1")


@engine.capability
async def count(text: str, ctx: Context[Deps]) -> int:
    """Count."""
    return len(text) + ctx.deps.missing  # refused


@engine.capability
async def place(order: Order) -> int:
    """Place."""
    return len(order.id)


async def inputs(order: Order, other: Other) -> None:
    """An input that no such capability takes."""
    await engine.invoke(count, 3)  # refused
    await engine.invoke(count, ["a"])  # refused
    await engine.invoke(count, "text")  # refused
    await engine.invoke(place, other)  # refused
    await engine.invoke(place, 3)  # refused
    await engine.invoke(3)  # refused
    await engine.invoke(count.handler)  # refused
    await engine.invoke(place, order)


async def results() -> None:
    """A result that is no such type."""
    text: str = await engine.invoke(count, {"text": "a"})  # refused
    outcome = await engine.attempt(count, {"text": "a"})
    repr(outcome.output)  # refused
    repr(outcome.error)  # refused
    wrong: Completed[str] = Completed("exe_1", 3)  # refused
    text = outcome.unwrap()  # refused
    del text, wrong


async def options() -> None:
    """Options that no call has."""
    await engine.invoke(count, actor="u_dana")  # refused
    await engine.invoke(count, timeout="5")  # refused
    await engine.invoke(count, cancel=True)  # refused
    await engine.invoke(count, surfaces="direct")  # refused
    await engine.attempt("count", idempotency_key=3)  # refused
    await engine.resume(3)  # refused
    await engine.resume("apr_1", surface="direct")  # refused
    await engine.discover("direct", scope="orders")  # refused
    await engine.on("http").invoke(count, surface="direct")  # refused


def settings() -> None:
    """Settings that no engine has."""
    Engine()  # refused
    Engine(3)  # refused
    Engine("a", polices=[])  # refused
    Engine("a", policies=[allow])  # refused
    Engine("a", limits=Limits(timeouts=3))  # refused
    Engine("a", audit=3)  # refused
    engine.include("lib")  # refused


def declarations() -> None:
    """Fields that no capability has."""
    engine.capability("a", side_effect="writes")  # refused
    engine.capability("a", risk="lo")  # refused
    engine.capability("a", retries=3)  # refused
    engine.capability("a", retry=3)  # refused
    engine.capability("a", acess="public")  # refused
    library.capability("a", errors=[ValueError])  # refused
    Retry("3")  # refused
    Actor("u", "robot")  # refused
    CancelToken().cancel(3)  # refused


@policy("wrong")  # refused
def wrong(request: PolicyRequest) -> str:
    """Answer with a text."""
    return "allow"


def parameters() -> None:
    """Calls that the handler's parameters do not fit."""
    lambda: place("o")  # refused
    lambda: (place(),)  # refused
    lambda: place(Order(id="o"), 3)  # refused
