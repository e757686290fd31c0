"""The floor: what a call would cost if pydantic and the handler were all there is."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, TypeAdapter

CALL = {"query": "late orders", "limit": 25}


class Query(BaseModel):
    """The input."""

    query: str
    limit: int = 10


class Row(BaseModel):
    """One of the three rows that the handler returns."""

    id: str
    total: float


ROWS = TypeAdapter(list[Row])


def rows() -> Any:
    """Three rows, as a database driver gives them."""
    return [
        {"id": "ord_1041", "total": 49.0},
        {"id": "ord_1042", "total": 112.5},
        {"id": "ord_1043", "total": 8.25},
    ]


async def search(query: str, limit: int = 10) -> list[Row]:
    """Find orders."""
    return rows()


async def search_and_wait(query: str, limit: int = 10) -> list[Row]:
    """Find orders, giving way to the event loop once."""
    await asyncio.sleep(0)
    return rows()


async def plain(calls: int) -> None:
    """Validate, await the handler, validate and dump; nothing else."""
    for _ in range(calls):
        given = Query.model_validate(CALL)
        found = await search(given.query, given.limit)
        ROWS.dump_python(ROWS.validate_python(found))


async def waiting(calls: int) -> None:
    """Do the same with the handler that suspends once."""
    for _ in range(calls):
        given = Query.model_validate(CALL)
        found = await search_and_wait(given.query, given.limit)
        ROWS.dump_python(ROWS.validate_python(found))
