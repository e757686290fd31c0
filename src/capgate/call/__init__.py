"""The data of one call, and the scope it runs in. The room's door."""

from __future__ import annotations

from capgate.call.actor import Actor, ActorKind, capture, check_operator
from capgate.call.clock import Clock, Duration, SystemClock, to_seconds
from capgate.call.context import Context
from capgate.call.ends import outcome_of, output_of
from capgate.call.forking import at_fork
from capgate.call.guard import Cause, Guard, Scope, Watch
from capgate.call.invocation import NO_ARGUMENTS, Call, CallGuard, InputForm, Settle
from capgate.call.limits import Limits
from capgate.call.logline import log
from capgate.call.outcome import ApprovalRequired, Cancelled, Completed, Failed, Outcome
from capgate.call.progress import Follower, Progress, follow_progress
from capgate.call.request import USUAL, Argument, Claim, Request
from capgate.call.scope import (
    Halted,
    Interrupted,
    Overrun,
    Stray,
    attach,
    bounded,
    call_bounded,
    current_watch,
    first,
    in_event_loop,
    is_awaitable,
    is_closing,
    pause,
    resume_native,
    sole_leaf,
    stopped,
)
from capgate.call.token import CancelToken
from capgate.call.view import Invocation
from capgate.call.woven import ARM, ATTACH, ATTACH_NAMES, DISARM

__all__ = [
    "ARM",
    "ATTACH",
    "ATTACH_NAMES",
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
    "Claim",
    "Clock",
    "Completed",
    "Context",
    "DISARM",
    "Duration",
    "Failed",
    "Follower",
    "Guard",
    "Halted",
    "InputForm",
    "Interrupted",
    "Invocation",
    "Limits",
    "NO_ARGUMENTS",
    # How it ends
    "Outcome",
    "Overrun",
    # Progress
    "Progress",
    "Request",
    "Scope",
    "Settle",
    "Stray",
    "SystemClock",
    "USUAL",
    "Watch",
    "attach",
    "bounded",
    "call_bounded",
    "capture",
    "current_watch",
    "first",
    "follow_progress",
    "at_fork",
    "check_operator",
    "in_event_loop",
    "is_awaitable",
    "is_closing",
    "log",
    "outcome_of",
    "output_of",
    "pause",
    "resume_native",
    "sole_leaf",
    "stopped",
    "to_seconds",
]
