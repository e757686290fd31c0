"""Weaving: the usual plan of one capability as one function, written at its first call.

A call with nothing unusual about it would spend a third of its time on the way from one small
function to the next. So each core step may say what it does as a few lines of source, a `Piece`;
they are joined here, in order, into the frame of a call. A step without a piece is called.

One law: a piece does what its step's `run` does, no more and no less, for a call that claims no
more than an input, an actor and deps. The lines may use `call`, `watch`, `task`, `now` and the
names they bring; `refused = …` and `break` end the call with a refusal.
"""

from __future__ import annotations

import builtins
import linecache
import re
from functools import cache
from itertools import count
from textwrap import indent
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast

from capgate.call import ATTACH, ATTACH_NAMES, output_of
from capgate.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from capgate.call import Call
    from capgate.pipeline.stage import Bound

T = TypeVar("T")

_FRAME: Final = """\
def bind(
    {names}
):
    async def carry(call, end):
        {attach}
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
        if end is output_of:
            if call.error is not None:
                raise call.error  # here it passes one frame less
            if call.suspended is None:
                return call.output
        return end(call)
    return carry
"""

_CALLED: Final = """\
answer = {run}(call)
if answer is not None:
    if isinstance(answer, CapabilityError):
        refused = answer
        break
    await answer
"""

_numbers: Final = count(1)


_BLOCK: Final = re.compile(r"^( *)\{(\w+)\}\n", re.MULTILINE)


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


@cache
def filled(form: str, **blocks: str) -> str:
    """Return `form` with the lines of a block, indented alike, for each line `{name}`."""
    return _BLOCK.sub(lambda found: indent(blocks[found[2]], found[1]), form)


def weave(start: Piece, steps: Sequence[Bound], ending: Piece, live: set[Call]) -> Carry:
    """Return the function that runs `steps` between the two, compiled once for each text."""
    names: dict[str, object] = {"live": live, "CapabilityError": CapabilityError, **ATTACH_NAMES}
    names["output_of"] = output_of
    names |= start.names
    texts: list[str | None] = []
    for place, step in enumerate(steps):
        names[f"step_{place}"] = step
        piece = None if step.piece is None else step.piece()
        names |= {f"run_{place}": step.run} if piece is None else piece.names
        texts.append(None if piece is None else piece.text)
    names |= ending.names
    bind = _bind_of(tuple(names), start.text, tuple(texts), ending.text)
    return cast("Carry", bind(*names.values()))


@cache  # there are as many as there are kinds of plans
def _bind_of(
    names: tuple[str, ...], start: str, texts: tuple[str | None, ...], ending: str
) -> Callable[..., object]:
    """Return the `bind` of joined texts; what goes wrong in it shows its lines in a traceback."""
    body = start
    for place, text in enumerate(texts):
        called = _CALLED.format(run=f"run_{place}")
        body += f"step = step_{place}\n" + (called if text is None else text)
    brought = "".join(f"{name},\n" for name in names)
    source = filled(_FRAME, names=brought, attach=ATTACH, steps=body, ending=ending)
    filename = f"<capgate plan {next(_numbers)}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = compile(source, filename, "exec", dont_inherit=True)
    bind, carry = _inner(module), _inner(_inner(module))
    # What a line assigns to is a variable of the call, and would hide what was brought.
    hidden = set(bind.co_varnames).intersection(carry.co_varnames)
    if hidden:
        raise LookupError(f"a piece assigns to a name that was brought: {sorted(hidden)}")
    return FunctionType(bind, {"__name__": __name__, "__builtins__": builtins})


def _inner(code: CodeType) -> CodeType:
    """Return the one function defined in `code`."""
    (inner,) = (each for each in code.co_consts if isinstance(each, CodeType))
    return inner
