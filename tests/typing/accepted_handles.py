"""What both checkers infer of handles: parameters, results and the input that fits. Never run."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar, assert_type

from pydantic import BaseModel

from capgate import Capability, Context, Engine, Library, Outcome

Out = TypeVar("Out")


class Deps:
    url: str


class Order(BaseModel):
    id: str


class Receipt(BaseModel):
    total: int


engine = Engine("shop", deps_type=Deps)
library = Library("lib", "1")


def out_of(handle: Capability[..., Out]) -> Out:
    """Return a value of a handle's result type."""
    raise NotImplementedError(handle)


@engine.capability
async def bare(id: str) -> Receipt:
    """Async, bare."""
    return Receipt(total=len(id))


@engine.capability("called", side_effect="read", risk="low", expose={"direct", "mcp"})
async def called(id: str, amount: int = 1) -> list[Receipt]:
    """Async, called."""
    return [Receipt(total=amount)] if id else []


@engine.capability()
def in_thread(id: str) -> int:
    """Sync."""
    return len(id)


@engine.capability
def bare_in_thread(id: str) -> int | None:
    """Sync, bare."""
    return len(id) or None


@library.capability("of-library")
async def of_library(id: str) -> str:
    """Async, of a library."""
    return id


@library.capability
def of_library_in_thread() -> None:
    """Sync, of a library."""


@engine.capability
async def with_model(order: Order) -> Receipt:
    """One model is the root."""
    return Receipt(total=len(order.id))


@engine.capability
async def with_context(order: Order, ctx: Context[Deps]) -> Receipt:
    """One model, and the context behind it."""
    assert_type(ctx.deps, Deps)
    return Receipt(total=len(order.id))


def returns_awaitable(id: str) -> Awaitable[Receipt]:
    """Return what has to be awaited."""
    return bare.handler(id)  # type: ignore[no-any-return]  # a handler's type is not kept


made = engine.capability("made")(returns_awaitable)

assert_type(out_of(bare), Receipt)
assert_type(out_of(called), list[Receipt])
assert_type(out_of(in_thread), int)
assert_type(out_of(bare_in_thread), int | None)
assert_type(out_of(of_library), str)
assert_type(out_of(of_library_in_thread), None)
assert_type(out_of(with_model), Receipt)
assert_type(out_of(with_context), Receipt)
assert_type(out_of(made), Receipt)
assert_type(bare.id, str)


async def calls(order: Order, payload: Mapping[str, Any]) -> None:
    """Every overload of `invoke` and `attempt`."""
    assert_type(await engine.invoke(bare, {"id": "o"}), Receipt)
    assert_type(await engine.invoke(bare, payload), Receipt)
    assert_type(await engine.invoke(bare), Receipt)
    assert_type(await engine.invoke(in_thread, {"id": "o"}), int)
    assert_type(await engine.invoke(with_model, order), Receipt)
    assert_type(await engine.invoke(with_model, {"id": "o"}), Receipt)
    assert_type(await engine.invoke(with_context, order), Receipt)
    assert_type(await engine.invoke(of_library_in_thread), None)
    assert_type(await engine.invoke("bare", {"id": "o"}), Any)
    assert_type(await engine.attempt(bare, {"id": "o"}), Outcome[Receipt])
    assert_type(await engine.attempt(with_model, order), Outcome[Receipt])
    assert_type(await engine.attempt("bare", order), Outcome[Any])
    assert_type(await engine.attempt_resume("apr_1"), Outcome[Any])


def parameters_are_kept() -> None:
    """A handle's type carries the handler's parameters: these are calls that would fit."""
    lambda: bare(id="o")
    lambda: bare("o")
    lambda: called("o", amount=2)
    lambda: with_model(Order(id="o"))
