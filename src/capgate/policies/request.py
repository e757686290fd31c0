"""What a policy and an access rule are asked about: read-only views of one call."""

from __future__ import annotations

from operator import length_hint
from sys import getrefcount
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, TypeAlias, final

from typing_extensions import TypeVar

from capgate.call import NO_ARGUMENTS
from capgate.errors import is_exit
from capgate.policies.decision import ALLOW

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from capgate.approvals import ApprovalRecord
    from capgate.call import Actor, Argument, Call, Clock
    from capgate.capability import CapabilityView

Phase: TypeAlias = Literal["discovery", "invocation", "execution"]
Prompt: TypeAlias = "tuple[tuple[int, Callable[..., object]], ...]"
Question: TypeAlias = "tuple[CapabilityView, Prompt]"
DepsT_co = TypeVar("DepsT_co", covariant=True, default=object)

LATER: Final = object()
"""The answer about a capability whose policies have to be awaited: none of them was asked."""


def _later(_: PolicyRequest[object]) -> object:
    return LATER


AWAITED: Final[Prompt] = ((0, _later),)
"""Stands for policies that have to be awaited."""


class Open(NamedTuple):
    """A capability that was not simply allowed: the first other answer, and where it came from."""

    place: int
    request: PolicyRequest[object]
    done: int
    answer: object


@final
class PolicyRequest(Generic[DepsT_co]):
    """One question to a policy. It can be read, never written; inputs are copies."""

    __slots__ = ("__call", "__clock", "__phase", "__view")

    def __init__(self, call: Call, phase: Phase, clock: Clock, view: CapabilityView) -> None:
        """Ask about `call` of the capability in `view`."""
        self.__call = call
        self.__clock = clock
        self.__view = view
        self.__phase: Phase = phase

    @property
    def phase(self) -> Phase:
        """When this is asked: `discovery`, `invocation` or `execution`."""
        return self.__phase

    @property
    def capability(self) -> CapabilityView:
        """The capability: id, side_effect, risk, tags, expose and more."""
        return self.__view

    @property
    def surface(self) -> str:
        """The surface the call came through."""
        return self.__call.surface

    @property
    def actor(self) -> Actor:
        """The caller; anonymous while nobody has been authenticated."""
        actor = self.__call.actor
        return actor if actor.shared else self.__call.shown_actor()

    @property
    def deps(self) -> DepsT_co:
        """The application's dependencies for this call."""
        deps: DepsT_co = self.__call.deps
        return deps

    @property
    def input(self) -> Argument:
        """A copy of the validated input, None in the discovery phase."""
        return None if self.__phase == "discovery" else self.__call.copy_input()

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """The validated top-level fields, read-only, empty in the discovery phase."""
        call, form = self.__call, self.__call.form
        return form.arguments(call.value) if call.validated and form else NO_ARGUMENTS

    @property
    def approval(self) -> ApprovalRecord | None:
        """The approval this call runs under, on resume."""
        return self.__call.approval

    @property
    def correlation_id(self) -> str:
        """What ties this execution to others."""
        return self.__call.correlation_id

    @property
    def now(self) -> datetime:
        """The engine's clock."""
        return self.__clock.now()

    @property
    def dry_run(self) -> bool:
        """True under `explain`: nothing may be consumed."""
        return self.__call.dry_run

    @classmethod
    def survey(cls, call: Call, clock: Clock, questions: Sequence[Question]) -> list[Open]:
        """Ask about many capabilities at discovery, each until a policy does not simply allow.

        For discovery walks, which ask about hundreds. Only here can a request be turned to
        another capability, and only while nobody else holds it.

        Returns:
            What was not simply allowed.
        """
        opened: list[Open] = []
        request: PolicyRequest[object] = PolicyRequest(call, "discovery", clock, questions[0][0])
        alone = getrefcount(request)
        left = iter(questions)
        for view, functions in left:
            if getrefcount(request) == alone:
                request.__view = view
            else:  # a policy has kept it: it stays as it was
                request = PolicyRequest(call, "discovery", clock, view)
            for done, evaluate in functions:
                try:
                    answer = evaluate(request)
                except BaseException as error:
                    if is_exit(error):
                        raise
                    answer = error
                if answer is not ALLOW:
                    place = len(questions) - length_hint(left) - 1
                    opened.append(Open(place, request, done, answer))
                    break
        return opened

    def __repr__(self) -> str:
        return f"PolicyRequest({self.__view.id!r}, {self.__phase!r})"
