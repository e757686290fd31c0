"""What is done once the outcome is known: keys are settled, stages get back what they left.

Nothing here decides. What fails is reported and changes nothing.
"""

from __future__ import annotations

from types import CoroutineType
from typing import TYPE_CHECKING

from capgate.call import call_bounded, log
from capgate.errors import is_exit

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from capgate.call import Call


async def contained(call: Call, work: Awaitable[None]) -> None:
    """Await what may record or release but never decide; its failure is reported."""
    try:
        await work
    except BaseException as error:
        if is_exit(error):
            raise
        log("settle_failed", call=call, error=error)


async def call_back(call: Call, seconds: float) -> None:
    """Run what stages left, last first, each shielded and bounded."""
    for callback in reversed(call.settling or ()):
        await call.watch.shielded(contained(call, call_bounded(callback, seconds=seconds)))


def call_back_at_exit(call: Call) -> None:
    """Run what stages left, as far as nothing has to be awaited."""
    for callback in reversed(call.settling or ()):
        try:
            pending = callback()
        except BaseException as error:
            if is_exit(error):
                raise
            log("settle_failed", call=call, error=error)
        else:
            if isinstance(pending, CoroutineType):
                pending.close()
