"""A context that stands first is not part of a handle's parameters. Never run."""

from __future__ import annotations

from typing import assert_type

from pydantic import BaseModel

from capgate import Context, Engine, Library


class Deps:
    url: str


class Order(BaseModel):
    id: str


engine = Engine("shop", deps_type=Deps)
library = Library("lib", "1")


@engine.capability
async def place(ctx: Context[Deps], order: Order) -> int:
    """Bare, with the context first."""
    return len(order.id + ctx.deps.url)


@engine.capability("called")
def called(ctx: Context[Deps], id: str) -> int:
    """Called, with the context first."""
    return len(id + ctx.deps.url)


@library.capability
async def alone(ctx: Context[Deps]) -> str:
    """Of a library, the context alone."""
    return ctx.execution_id


async def calls(order: Order) -> None:
    """A model that stands behind the context is the root."""
    assert_type(await engine.invoke(place, order), int)
    assert_type(await engine.invoke(place, {"id": "o"}), int)
    assert_type(await engine.invoke(called, {"id": "o"}), int)
    assert_type(await engine.invoke(alone), str)


def parameters() -> None:
    """The context is no parameter of the handle."""
    lambda: place(Order(id="o"))
    lambda: called("o")
    lambda: (alone(),)
