"""How a call ends: one of four outcomes, private to the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Generic, Literal, NoReturn, TypeAlias, final

from typing_extensions import TypeVar

from capgate.errors import CapabilityError, Effect, ErrorCode, stamp

if TYPE_CHECKING:
    from capgate.approvals import ApprovalRecord

Out_co = TypeVar("Out_co", covariant=True)
_put: Final = object.__setattr__


class _Frozen:
    """Values that do not change once built; the fields compare."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot delete {name!r}")

    def _fields(self) -> tuple[object, ...]:
        names = [name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())]
        return tuple(getattr(self, name) for name in names)

    def __reduce__(self) -> tuple[object, ...]:
        names = [name for kind in type(self).__mro__ for name in getattr(kind, "__slots__", ())]
        return _rebuilt, (type(self), {name: getattr(self, name) for name in names})

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((type(self), self._fields()[0]))


def _rebuilt(kind: type[_Frozen], fields: dict[str, object]) -> _Frozen:
    """Make a copied or pickled outcome again."""
    outcome = kind.__new__(kind)
    for name, value in fields.items():
        _put(outcome, name, value)
    return outcome


@final
class Completed(_Frozen, Generic[Out_co]):
    """The handler returned and its output kept the contract.

    `late` says it returned after its deadline; `replayed` that a repeat with the same
    idempotency key got the stored output. `attempts` counts from 1.
    """

    __slots__ = ("attempts", "effect", "execution_id", "late", "output", "replayed")
    __match_args__ = ("execution_id", "output")
    status: ClassVar[Literal["completed"]] = "completed"

    execution_id: str
    output: Out_co
    effect: Effect
    attempts: int
    late: bool
    replayed: bool

    def __init__(
        self,
        execution_id: str,
        output: Out_co,
        effect: Effect = Effect.DONE,
        attempts: int = 1,
        late: bool = False,
        replayed: bool = False,
    ) -> None:
        """See the class."""
        _put(self, "execution_id", execution_id)
        _put(self, "output", output)
        _put(self, "effect", effect)
        _put(self, "attempts", attempts)
        _put(self, "late", late)
        _put(self, "replayed", replayed)

    def unwrap(self) -> Out_co:
        """Return the output."""
        return self.output

    def __repr__(self) -> str:
        return f"Completed({self.execution_id!r})"


@final
class ApprovalRequired(_Frozen):
    """The call waits for an approval; nothing has been executed."""

    __slots__ = ("approval", "effect", "execution_id")
    __match_args__ = ("execution_id", "approval")
    status: ClassVar[Literal["approval-required"]] = "approval-required"

    execution_id: str
    approval: ApprovalRecord
    effect: Effect

    def __init__(
        self, execution_id: str, approval: ApprovalRecord, effect: Effect = Effect.NONE
    ) -> None:
        """See the class."""
        _put(self, "execution_id", execution_id)
        _put(self, "approval", approval)
        _put(self, "effect", effect)

    def unwrap(self) -> NoReturn:
        """Raise APPROVAL_REQUIRED, with the approval's id on the error.

        Raises:
            CapabilityError: Always.
        """
        error = CapabilityError(ErrorCode.APPROVAL_REQUIRED)
        raise stamp(error, execution_id=self.execution_id, approval_id=self.approval.id)

    def __repr__(self) -> str:
        return f"ApprovalRequired({self.execution_id!r}, {self.approval.id!r})"


class _Unsuccessful(_Frozen):
    """What a failed and a cancelled outcome share."""

    __slots__ = ("effect", "error", "execution_id")
    __match_args__ = ("execution_id", "error")

    execution_id: str
    error: CapabilityError
    effect: Effect

    def __init__(
        self, execution_id: str, error: CapabilityError, effect: Effect = Effect.NONE
    ) -> None:
        """See the class."""
        _put(self, "execution_id", execution_id)
        _put(self, "error", error)
        _put(self, "effect", effect)

    def unwrap(self) -> NoReturn:
        """Raise the error.

        Raises:
            CapabilityError: Always.
        """
        raise self.error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.execution_id!r}, {self.error.code.value})"


@final
class Failed(_Unsuccessful):
    """A stage refused or the handler failed; `effect` says whether anything may have happened."""

    __slots__ = ()
    status: ClassVar[Literal["failed"]] = "failed"


@final
class Cancelled(_Unsuccessful):
    """The deadline (TIMEOUT) or the caller's token (CANCELLED) ended the call."""

    __slots__ = ()
    status: ClassVar[Literal["cancelled"]] = "cancelled"


Outcome: TypeAlias = Completed[Out_co] | ApprovalRequired | Failed | Cancelled
