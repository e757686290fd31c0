"""What an entered engine does beside its calls: deliver the audit, mark what has lapsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from capgate.call import log, to_seconds
from capgate.errors import CapabilityError

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from capgate.audit import Auditor
    from capgate.pipeline import Runtime


async def keep_house(auditor: Auditor, runtime: Runtime, *, task_status: TaskStatus[None]) -> None:
    """Run until cancelled; says that it has started once the audit is delivered."""
    every = runtime.approvals.expire_every
    async with anyio.create_task_group() as group:
        await group.start(auditor.run)
        if every is not None:
            group.start_soon(_expire, runtime, to_seconds(every, "expire_every"))
        task_status.started()


async def _expire(runtime: Runtime, seconds: float) -> None:
    """Mark lapsed requests again and again; other processes may do the same at the same time."""
    while True:
        await anyio.sleep(seconds)
        try:
            await runtime.desk.store.expire_due(runtime.clock.now())
        except CapabilityError as outage:  # the next pass may find the store again
            log("expire_failed", error=outage)
