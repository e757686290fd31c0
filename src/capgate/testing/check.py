"""What a contract suite is made of: named checks, each with a store of its own.

Nothing here knows what a store must do; the `contracts_…` files do.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import anyio
import anyio.lowlevel

from capgate.errors import CapabilityError, ErrorCode

StoreT = TypeVar("StoreT")
T = TypeVar("T")
# A store, an awaitable of one, or an async context manager that opens and closes one.
Opened: TypeAlias = StoreT | Awaitable[StoreT] | AbstractAsyncContextManager[StoreT]
Factory: TypeAlias = Callable[[], Opened[StoreT]]


@dataclass(frozen=True, slots=True)
class Check:
    """One promise of a contract: `await check.run()` raises AssertionError when it is broken."""

    name: str
    run: Callable[[], Awaitable[None]]

    def __str__(self) -> str:
        return self.name


def checks(
    factory: Factory[StoreT], promises: Iterable[Callable[[StoreT], Awaitable[None]]]
) -> list[Check]:
    """Return one check for each promise; each opens a new store from the factory."""
    return [_check(factory, promise) for promise in promises]


def _check(factory: Factory[StoreT], promise: Callable[[StoreT], Awaitable[None]]) -> Check:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            await promise(await _open(factory, stack))

    return Check(promise.__name__.removeprefix("_"), run)


async def _open(factory: Factory[StoreT], stack: AsyncExitStack) -> StoreT:
    made: Any = factory()
    if inspect.isawaitable(made):
        made = await made
    if isinstance(made, AbstractAsyncContextManager):
        made = await stack.enter_async_context(cast("AbstractAsyncContextManager[Any]", made))
    return cast("StoreT", made)


def expect(held: object, promise: str) -> None:
    """Fail a check, by name of what was promised."""
    if not held:
        raise AssertionError(promise)


async def expect_refusal(code: ErrorCode, attempt: Awaitable[object]) -> None:
    """Fail a check unless the attempt is refused with exactly this code."""
    try:
        await attempt
    except CapabilityError as refusal:
        expect(refusal.code is code, f"refused with {code}, not with {refusal.code}")
    else:
        raise AssertionError(f"refused with {code}, but it went through")


async def race(attempts: Iterable[Callable[[], Awaitable[T]]]) -> list[T | CapabilityError]:
    """Run all attempts at once; return each one's answer or refusal, in order of finishing."""
    ended: list[T | CapabilityError] = []

    async def run(attempt: Callable[[], Awaitable[T]]) -> None:
        await anyio.lowlevel.checkpoint()
        try:
            ended.append(await attempt())
        except CapabilityError as refusal:
            ended.append(refusal)

    async with anyio.create_task_group() as group:
        for attempt in attempts:
            group.start_soon(run, attempt)
    return ended


def winners(ended: Iterable[T | CapabilityError]) -> list[T]:
    """Return what went through."""
    return [each for each in ended if not isinstance(each, CapabilityError)]


def codes(ended: Iterable[object]) -> set[ErrorCode]:
    """Return the codes of what was refused."""
    return {each.code for each in ended if isinstance(each, CapabilityError)}
