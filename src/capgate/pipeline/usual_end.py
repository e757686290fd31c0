"""How a usual call ends, as lines of its woven function; the rest is left to the `Ending`."""

from __future__ import annotations

from textwrap import indent
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from capgate.pipeline.weaving import Piece

if TYPE_CHECKING:
    from capgate.pipeline.ending import Ending
    from capgate.pipeline.evidence import Evidence

_ENDED: Final = """\
if refused is not None:
    concluding = turn_away(call, refused)
elif call.raised is not None or call.overrun:
    concluding = conclude(call)
else:
{well}if concluding is not None:
    await concluding
"""
_STRICTLY: Final = """\
    concluding = conclude(call)
"""
_UNHEARD: Final = """\
    call.effect = done
    concluding = None if call.settling is None else finish(call, None)
"""
_TOLD: Final = """\
    call.effect = done
{told}    concluding = None
    if noted is not None or call.settling is not None:
        concluding = finish(call, noted)
"""
# As `completed_data` gives it where no handler outlasted its grace.
_COMPLETED: Final = """\
frozen(
    {
        "attempts": call.attempts,
        "late": call.late,
        "policy_decisions": call.decisions,
        "duration_ms": (now() - call.started_at) * 1000.0,
    }
)"""


def usual_end(ending: Ending, evidence: Evidence) -> Piece:
    """Return the lines that do what `conclude` and `refuse` do for a usual call."""
    told = evidence.piece("capability.completed", indent(_COMPLETED, " " * 8).lstrip())
    names = {
        **told.names,
        "turn_away": ending.turn_away,
        "conclude": ending.conclude,
        "finish": ending.finish,
        "done": ending.done,
        "frozen": MappingProxyType,
    }
    if evidence.strict:
        well = _STRICTLY
    else:
        well = _TOLD.format(told=indent(told.text, " " * 4)) if told.text else _UNHEARD
    return Piece(_ENDED.format(well=well), names)
