"""A small application on one database, run in processes of its own by the tests beside it."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import anyio

from capgate import Actor, ApprovalConfig, ApprovalRule, Engine
from capgate.errors import CapabilityError
from capgate.stores import SqlApprovals, SqlAudit, SqlIdempotency, Store
from capgate.stores.chain import Chain

DANA, MIA = Actor("dana"), Actor("mia")


def desk(url, effects):
    """An engine whose one capability needs approval and leaves a line in the file `effects`."""
    store = Store(url)
    engine = Engine("desk", store=store, approvals=ApprovalConfig(load_actor=lambda actor: actor))

    @engine.capability("pay", side_effect="write", risk="high", approval=ApprovalRule())
    async def pay(order: str) -> str:
        """Pay, and leave a trace of it."""
        leave(effects, order)
        reach("handler")
        return order

    @engine.capability("book", side_effect="write", risk="low")
    async def book(order: str) -> str:
        """Book, and leave a trace of it."""
        leave(effects, order)
        reach("handler")
        return order

    return engine, store


def leave(effects, order):
    """Add a line to a file."""
    with Path(effects).open("a") as file:
        file.write(f"{order}\n")


POINT = None


def reach(point):
    """Die at the point this process was told to die at."""
    if point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


def watched(kind, name):
    """Make a method of a store reach a point before and after what it does."""
    method = getattr(kind, name)

    async def watching(self, *args, **named):
        reach(f"{name}-before")
        answer = await method(self, *args, **named)
        reach(f"{name}-after")
        return answer

    setattr(kind, name, watching)


def watch_audit():
    """Make the audit reach points around each type of event: in its transaction, and after it."""
    append, write_many = Chain.append, SqlAudit.write_many

    def appending(self, db, records):
        records = list(records)
        for record in records:
            reach(f"{record['type']}-before")
        append(self, db, records)
        for record in records:
            reach(f"{record['type']}-appended")

    async def writing(self, events):
        await write_many(self, events)
        for event in events:
            reach(f"{event.type}-after")

    Chain.append, SqlAudit.write_many = appending, writing


async def live(url, effects):
    """Ask, approve and resume once, dying on the way."""
    for name in ("create", "decide", "consume"):
        watched(SqlApprovals, name)
    watch_audit()
    engine, _ = desk(url, effects)
    async with engine:
        asked = await engine.attempt("pay", {"order": "o1"}, actor=DANA)
        await engine.approvals.approve(asked.approval.id, by=MIA)
        await engine.resume(asked.approval.id)


async def hold(url, effects):
    """Make one call with a key, dying on the way."""
    for name in ("begin", "start", "complete"):
        watched(SqlIdempotency, name)
    watch_audit()
    engine, _ = desk(url, effects)
    async with engine:
        await engine.attempt("book", {"order": "o1"}, actor=DANA, idempotency_key="k1")


async def race(url, effects, ids):
    """Resume every approval, as others do at the same time; print how many ran here."""
    engine, _ = desk(url, effects)
    ran = 0
    async with engine:
        for approval_id in ids:
            try:
                await engine.resume(approval_id)
            except CapabilityError as refusal:
                if refusal.code != "APPROVAL_CONSUMED":
                    raise
            else:
                ran += 1
    sys.stdout.write(str(ran))


async def repeat(url, effects, keys):
    """Make the same calls as others at the same time; print how many ran or were replayed here."""
    engine, _ = desk(url, effects)
    answered = 0
    async with engine:
        for key in keys:
            outcome = await engine.attempt("book", {"order": key}, actor=DANA, idempotency_key=key)
            if outcome.status == "completed":
                answered += 1
            elif outcome.error.code != "IDEMPOTENCY_CONFLICT":
                raise outcome.error
    sys.stdout.write(str(answered))


if __name__ == "__main__":
    warnings.simplefilter("error")
    what, url, effects, more = sys.argv[1:]
    if what in {"live", "hold"}:
        POINT = more
        anyio.run({"live": live, "hold": hold}[what], url, effects)
    else:
        anyio.run({"race": race, "repeat": repeat}[what], url, effects, json.loads(more))
