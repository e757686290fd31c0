"""What woven plans do in place: the lines of `attach`, `arm` and `disarm`.

Each does what its function does, and is held to it by the tests that weave. They are here because
a call would otherwise spend a twentieth of its time on entering the three.
"""

from __future__ import annotations

from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from capgate.call.guard import RECENT
from capgate.call.scope import attach

if TYPE_CHECKING:
    from collections.abc import Mapping

# Leaves `watch`, `task` and `now`.
ATTACH: Final = """\
watch, task = recent.watch, None
if watch is not None and watch.thread == get_ident():
    current_task = watch.task
    task = current_task()
if task is None:
    attach(call)
    watch, task = call.watch, call.task
    now = watch.now
else:
    now = watch.now
    call.watch, call.task, call.started_at = watch, task, now()
    if task.cancelling():
        call.baseline = watch.baseline(task)
"""
ATTACH_NAMES: Final[Mapping[str, object]] = MappingProxyType(
    {"recent": RECENT, "get_ident": get_ident, "attach": attach}
)
# Takes `seconds`.
ARM: Final = """\
call.deadline = deadline = now() + seconds
lane = watch.lanes.get(seconds)
if lane is None or deadline < watch.due:
    watch.arm(call, seconds)
else:
    lane[call] = None
    call.lane = lane
"""
DISARM: Final = """\
lane = call.lane
if lane is not None:
    lane.pop(call, None)
    call.lane = None
"""
