"""The data of one call: what flows through the pipeline, and the scope it runs in. The room's door."""

from __future__ import annotations

from capgate.call.actor import Actor, ActorKind, capture
from capgate.call.clock import Clock, Duration, SystemClock, to_seconds
from capgate.call.context import Context
from capgate.call.guard import Cause, Guard, Watch
from capgate.call.invocation import Call, CallGuard, Invocation, Settle
from capgate.call.limits import Limits
from capgate.call.log import log
from capgate.call.outcome import ApprovalRequired, Cancelled, Completed, Failed, Outcome
from capgate.call.progress import Follower, Progress, follow_progress
from capgate.call.request import Argument, Request
from capgate.call.scope import (
    Interrupted,
    Overrun,
    Stray,
    bounded,
    call_bounded,
    current_watch,
    first,
    in_event_loop,
    is_exit,
    resume_native,
    stopped,
)
from capgate.call.token import CancelToken

__all__ = [
    # Who and what
    "Actor",
    "ActorKind",
    "ApprovalRequired",
    "Argument",
    "Call",
    # Time and stopping
    "CancelToken",
    "Cancelled",
    # For the pipeline
    "CallGuard",
    "Cause",
    "Clock",
    "Completed",
    "Context",
    "Duration",
    "Failed",
    "Follower",
    "Guard",
    "Interrupted",
    "Invocation",
    "Limits",
    # How it ends
    "Outcome",
    "Overrun",
    # Progress
    "Progress",
    "Request",
    "Settle",
    "Stray",
    "SystemClock",
    "Watch",
    "bounded",
    "call_bounded",
    "capture",
    "current_watch",
    "first",
    "follow_progress",
    "in_event_loop",
    "is_exit",
    "log",
    "resume_native",
    "stopped",
    "to_seconds",
]
