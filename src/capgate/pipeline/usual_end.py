"""How a usual call ends, as lines of its woven function; the rest is left to the `Ending`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from capgate.pipeline.weaving import Piece, filled

if TYPE_CHECKING:
    from capgate.pipeline.ending import Ending
    from capgate.pipeline.evidence import Evidence

_ENDED: Final = """\
if refused is not None:
    concluding = turn_away(call, refused)
elif call.raised is not None or call.overrun:
    concluding = conclude(call)
else:
    {well}
if concluding is not None:
    await concluding
"""
_STRICTLY: Final = """\
concluding = conclude(call)
"""
_UNHEARD: Final = """\
call.effect = done
concluding = None if call.settling is None else finish(call, None)
"""
# The data is what `completed_data` gives where no handler outlasted its grace.
_HEARD: Final = """\
call.effect = done
completed = frozen(
    {
        "attempts": call.attempts,
        "late": call.late,
        "policy_decisions": call.decisions,
        "duration_ms": (now() - call.started_at) * 1000.0,
    }
)
{told}
concluding = None
if noted is not None or call.settling is not None:
    concluding = finish(call, noted)
"""


def usual_end(ending: Ending, evidence: Evidence) -> Piece:
    """Return the lines that do what `conclude` and `refuse` do for a usual call."""
    told = evidence.piece("capability.completed", "completed")
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
        well = filled(_HEARD, told=told.text) if told.text else _UNHEARD
    return Piece(filled(_ENDED, well=well), names)
