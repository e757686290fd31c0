"""capgate's own log lines. Whatever a logger does, no call notices; no line holds a payload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from capgate.call.invocation import Call
    from capgate.errors import JSON


def log(
    event: str,
    *,
    level: str = "error",
    call: Call | None = None,
    error: BaseException | None = None,
    **facts: JSON,
) -> None:
    """Write one line; never raises.

    Args:
        event: A constant.
        level: The name of a method of the logger.
        call: Whose line it is: it carries the call's ids.
        error: What went wrong; only its type is written.
        **facts: Constants, numbers and ids.
    """
    try:
        if error is not None:
            facts["error_type"] = type(error).__name__
        bound = structlog.get_logger("capgate") if call is None else call.logger
        getattr(bound, level)(event, **facts)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # there is nobody left to tell
        return
