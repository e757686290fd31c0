"""Weaving: the usual plan of one capability as one function, written when it is bound.

A call with nothing unusual about it would spend a third of its time on the way from one small
function to the next. So each core step may say what it does as a few lines of source, a `Piece`;
they are joined here, in order, into the frame of a call. A step without a piece is called.

One law: a piece does what its step's `run` does, no more and no less, for a call that claims no
more than an input, an actor and deps. The lines may use `call`, `watch`, `task`, `now` and the
names they bring; `refused = …` and `break` end the call with a refusal.
"""

from __future__ import annotations

import linecache
from functools import cache
from itertools import count
from textwrap import indent
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast

from capgate.call import attach
from capgate.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from capgate.call import Call
    from capgate.pipeline.stage import Bound

T = TypeVar("T")

_FRAME: Final = """\
def bind({names}):
    async def carry(call, end):
        attach(call)
        watch, task = call.watch, call.task
        now = watch.now
        live.add(call)
        step = refused = None
        try:
            try:
                while True:  # left by the first refusal, or at the end
{steps}
                    break
            except BaseException as broken:  # judged by the ending, which nothing gets around
                call.raised, call.step = broken, step
{ending}
        finally:
            live.discard(call)
        return end(call)
    return carry
"""

_STEP: Final = "step = step_{place}\n"

_CALLED: Final = """\
answer = run_{place}(call)
if answer is not None:
    if isinstance(answer, CapabilityError):
        refused = answer
        break
    await answer
"""

_numbers: Final = count(1)


class Piece(NamedTuple):
    """What a step does, as source, and what its names stand for."""

    text: str
    names: Mapping[str, object]


class Carry(Protocol):
    """Runs a call with nothing unusual about it to its one end.

    Returns what `end` makes of the record, which holds an output, an error or an approval. Raises
    only a native cancellation or an exit of the process, after the event; and what `end` raises.
    """

    def __call__(self, call: Call, end: Callable[[Call], T], /) -> Coroutine[Any, Any, T]:
        """Run `call`."""
        ...


def weave(start: Piece, steps: Sequence[Bound], ending: Piece, live: set[Call]) -> Carry:
    """Return the function that runs `steps` between the two, compiled once for each text."""
    names = {"attach": attach, "live": live, **start.names, **ending.names}
    text = start.text
    for place, step in enumerate(steps):
        names[f"step_{place}"] = step
        text += _STEP.format(place=place)
        if step.piece is None:
            names |= {f"run_{place}": step.run, "CapabilityError": CapabilityError}
            text += _CALLED.format(place=place)
        else:
            names.update(step.piece.names)
            text += step.piece.text
    source = _FRAME.format(
        names=", ".join(names), steps=indent(text, " " * 20), ending=indent(ending.text, " " * 12)
    )
    return cast("Carry", _compiled(source)(*names.values()))


@cache  # there are as many texts as there are kinds of plans
def _compiled(source: str) -> Callable[..., object]:
    """Return the `bind` of a source; what goes wrong in it shows its lines in a traceback."""
    name = f"<capgate plan {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    module = compile(source, name, "exec", dont_inherit=True)
    bind, carry = _inner(module), _inner(_inner(module))
    # What a line assigns to is a variable of the call, and would hide what was brought.
    hidden = set(bind.co_varnames).intersection(carry.co_varnames)
    if hidden:
        raise LookupError(f"a piece assigns to a name that was brought: {sorted(hidden)}")
    return FunctionType(bind, {"__name__": __name__})


def _inner(code: CodeType) -> CodeType:
    """Return the one function defined in `code`."""
    (inner,) = (each for each in code.co_consts if isinstance(each, CodeType))
    return inner
