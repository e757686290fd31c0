"""The read-only view of one call that custom stages and factories of dependencies get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from structlog.typing import FilteringBoundLogger

    from capgate.approvals import ApprovalRecord
    from capgate.call.actor import Actor
    from capgate.call.invocation import Call, Settle
    from capgate.call.request import Argument
    from capgate.capability import CapabilityView


class Invocation:
    """What a custom stage sees of one call; it can read everything and change nothing but `state`.

    `input` and `arguments` are None and empty before the input is validated, and copies after.
    """

    __slots__ = ("__call", "__weakref__")

    def __init__(self, call: Call) -> None:
        """View `call`."""
        self.__call = call

    @property
    def execution_id(self) -> str:
        """This execution."""
        return self.__call.execution_id

    @property
    def capability(self) -> CapabilityView:
        """The capability, read-only."""
        view = self.__call.view
        if view is None:
            raise LookupError("no capability: stages do not run for an unknown id")
        return view

    @property
    def surface(self) -> str:
        """The surface the call came through."""
        return self.__call.surface

    @property
    def input(self) -> Argument:
        """A copy of the validated input."""
        return self.__call.copy_input()

    @property
    def arguments(self) -> Mapping[str, Argument]:
        """The validated top-level fields, read-only."""
        return self.__call.arguments()

    @property
    def actor(self) -> Actor:
        """The caller; anonymous until authentication has judged the identity."""
        return self.__call.shown_actor()

    @property
    def deps(self) -> Any:
        """The application's dependencies for this call."""
        return self.__call.deps

    @property
    def approval(self) -> ApprovalRecord | None:
        """The approval this call runs under, on resume."""
        return self.__call.approval

    @property
    def correlation_id(self) -> str:
        """What ties this execution to others."""
        return self.__call.correlation_id

    @property
    def dry_run(self) -> bool:
        """True under `explain`: nothing may be consumed."""
        return self.__call.dry_run

    @property
    def state(self) -> dict[str, object]:
        """A mapping of this call for stages to talk to each other."""
        return self.__call.state

    @property
    def logger(self) -> FilteringBoundLogger:
        """A logger bound to this call."""
        return self.__call.logger

    def on_settle(self, callback: Settle) -> None:
        """Have `callback` run once the outcome is known.

        Callbacks run in reverse order, shielded from cancellation, each bounded in time. They may
        release or record; the outcome no longer changes.

        Args:
            callback: Takes nothing; may be async.
        """
        if not callable(callback):
            raise TypeError("on_settle needs a callable without arguments")
        self.__call.on_settle(callback)
