"""What is paid once: registration (P8) and import (P9)."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import date
from decimal import Decimal
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from bench.floor import Row
from bench.measure import Bound, Result, compare
from capgate import Engine

CAPABILITIES = 300
TOGETHER = "import anyio, pydantic, jsonschema, structlog"
TIMED = "import time; start = time.process_time(); {}; print(time.process_time() - start)"
Handler = Callable[..., Awaitable[Any]]


class Order(BaseModel):
    """A capability's output that is a model."""

    id: str
    lines: list[Row]
    placed: date | None = None


def shapes() -> list[Handler]:
    """Six ordinary signatures, made anew on each call."""

    async def search(query: str, limit: int = 10) -> list[Row]:
        """Find orders."""

    async def show(order_id: str) -> Order:
        """Show an order."""

    async def refund(order_id: str, amount: Decimal, reason: str, *, notify: bool = True) -> Row:
        """Refund an order."""

    async def count(since: date, until: date | None = None) -> int:
        """Count orders."""

    async def tag(order_id: str, tags: list[str]) -> dict[str, int]:
        """Tag an order."""

    async def replace(order_id: str, lines: list[Row]) -> Order:
        """Replace an order's lines."""

    return [search, show, refund, count, tag, replace]


def handlers() -> list[Handler]:
    """As many functions as there are capabilities."""
    return [handler for _ in range(CAPABILITIES // 6) for handler in shapes()]


def register(functions: list[Handler]) -> None:
    """Register each function with an engine."""
    engine = Engine("bench")
    for number, function in enumerate(functions):
        engine.capability(f"{function.__name__}_{number}", side_effect="read")(function)


def signatures(functions: list[Handler]) -> list[tuple[str, dict[str, Any], Any]]:
    """Each function's name, its fields as pydantic wants them, and what it returns."""
    found = []
    for function in functions:
        hints = get_type_hints(function)
        output = hints.pop("return")
        names = list(hints)
        given = function.__defaults__ or ()
        defaults = dict(zip(names[len(names) - len(given) :], given, strict=True))
        defaults |= function.__kwdefaults__ or {}
        fields = {name: (hint, defaults.get(name, ...)) for name, hint in hints.items()}
        found.append((function.__name__, fields, output))
    return found


def schemas(described: list[tuple[str, dict[str, Any], Any]]) -> None:
    """Have pydantic make the same validators and the same JSON Schemas."""
    for name, fields, output in described:
        model = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
        TypeAdapter(output).json_schema(mode="serialization")


def registration(rounds: int) -> Result:
    """P8: registration against pydantic alone, in turns."""
    case: list[float] = []
    floor: list[float] = []
    for _ in range(rounds + 1):
        functions = handlers()
        described = signatures(functions)
        floor.append(_cpu(lambda: schemas(described)))  # noqa: B023  run at once
        case.append(_cpu(lambda: register(functions)))  # noqa: B023  run at once
    work = f"registration of {CAPABILITIES} capabilities"
    return compare("P8", work, case[1:], floor[1:], Bound(1.3, 1.1))


def _cpu(work: Callable[[], None]) -> float:
    gc.collect()
    start = time.process_time()
    work()
    return 1e6 * (time.process_time() - start)


def importing(rounds: int) -> list[Result]:
    """P9: import in fresh interpreters, in turns.

    The names load at their first use, so the second row is what a service pays; it has no bound.
    """
    statements = ("import capgate", "from capgate import Engine")
    cases: dict[str, list[float]] = {statement: [] for statement in statements}
    floor: list[float] = []
    for _ in range(rounds + 1):
        floor.append(_fresh(TOGETHER))
        for statement, spent in cases.items():
            spent.append(_fresh(statement))
    bounds = (Bound(1.3, 1.15), Bound())
    return [
        compare("P9", what, spent[1:], floor[1:], bound)
        for (what, spent), bound in zip(cases.items(), bounds, strict=True)
    ]


def _fresh(statement: str) -> float:
    command = [sys.executable, "-c", TIMED.format(statement)]
    return 1e6 * float(subprocess.check_output(command, text=True))  # noqa: S603  our own words
