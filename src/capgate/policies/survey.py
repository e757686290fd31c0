"""Asking about many capabilities in one go: what a discovery walk does before it awaits anything.

Only plain functions are asked here. What is done with the answers is for who walks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import getrefcount
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from capgate.policies.decision import ALLOW
from capgate.policies.evaluate import contained
from capgate.policies.request import PolicyRequest

if TYPE_CHECKING:
    from capgate.call import Call, Clock
    from capgate.capability import CapabilityView

T = TypeVar("T")

Prompt: TypeAlias = "tuple[tuple[int, Callable[..., object]], ...]"
Question: TypeAlias = "tuple[CapabilityView, Prompt, T]"

_turn: Final[Callable[[PolicyRequest[object], CapabilityView], None]] = vars(PolicyRequest)[
    "_PolicyRequest__view"
].__set__


LATER: Final = object()
"""The answer about a capability whose policies have to be awaited: none of them was asked."""


def _later(request: PolicyRequest[object]) -> object:
    return LATER


AWAITED: Final[Prompt] = ((0, _later),)
"""Stands for policies that have to be awaited."""


class Open(NamedTuple):
    """A capability that was not simply allowed: the first other answer, and where it came from."""

    place: int
    request: PolicyRequest[object]
    done: int
    answer: object


def survey(
    call: Call, clock: Clock, questions: Iterable[Question[T]]
) -> tuple[list[T | None], list[Open]]:
    """Ask the policies of the discovery phase about each capability, until one does not allow.

    Returns:
        For each question its third item if all allowed, else None; and what is open.
    """
    found: list[T | None] = []
    opened: list[Open] = []
    request: PolicyRequest[object] | None = None
    alone = 0
    for view, functions, allowed in questions:
        # One request serves them all, unless a policy has kept it: then it stays as it was.
        if request is None or getrefcount(request) != alone:
            request = PolicyRequest(call, "discovery", clock, view)
            alone = getrefcount(request)
        else:
            _turn(request, view)
        for done, evaluate in functions:
            try:
                answer = evaluate(request)
            except BaseException as error:
                answer = contained(error)
            if answer is not ALLOW:
                opened.append(Open(len(found), request, done, answer))
                found.append(None)
                break
        else:
            found.append(allowed)
    return found, opened
