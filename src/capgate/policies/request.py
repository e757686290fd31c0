"""What a policy and an access rule are asked about: read-only views of one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, final

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from capgate.approvals import ApprovalRecord
    from capgate.call import Actor, Argument, Call, Clock
    from capgate.capability import CapabilityView

Phase: TypeAlias = Literal["discovery", "invocation", "execution"]
DepsT = TypeVar("DepsT", covariant=True, default=object)


@final
class PolicyRequest(Generic[DepsT]):
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
        return self.__call.actor

    @property
    def deps(self) -> DepsT:
        """The application's dependencies for this call."""
        deps: Any = self.__call.deps
        return deps

    @property
    def input(self) -> Argument:
        """A copy of the validated input, None in the discovery phase."""
        return None if self.__phase == "discovery" else self.__call.copy_input()

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """The validated top-level fields, read-only, empty in the discovery phase."""
        return self.__call.arguments()

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

    def __repr__(self) -> str:
        return f"PolicyRequest({self.__view.id!r}, {self.__phase!r})"
