"""The audit event: one immutable fact about an execution.

Here: the value, its plain form and the freezing of its data. Not here: who emits which event
(the pipeline) and where it goes (the sinks).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast, final

from capgate.audit.plain import to_plain

if TYPE_CHECKING:
    from capgate.errors import JSON

_NO_DATA: Mapping[str, JSON] = MappingProxyType({})
_SCALARS = frozenset({str, int, float, bool, type(None)})


FIELDS = (
    "type",
    "timestamp",
    "surface",
    "actor",
    "execution_id",
    "capability_id",
    "correlation_id",
    "parent_execution_id",
    "input_hash",
    "data",
)
"""The names of an event's fields, in order."""


class _Fields(NamedTuple):
    """An event is a tuple underneath: up to three are built on every call.

    `at` may be seconds since the epoch: most sinks never look at the time as such.
    """

    type: str
    at: float | datetime
    surface: str | None
    actor: Mapping[str, str] | None
    execution_id: str | None
    capability_id: str | None
    correlation_id: str | None
    parent_execution_id: str | None
    input_hash: str | None
    data: Mapping[str, JSON]


@final
class AuditEvent(_Fields):
    """One fact about an execution, with no input, output or credential in it (SI-10).

    Construction copies nothing. Whoever builds one passes an aware UTC `timestamp`, an `actor`
    that is a read-only `{"id", "kind"}`, and `data` that is deep-frozen (`freeze` makes it so):
    sinks share the one object.
    """

    __slots__ = ()

    def __new__(
        cls,
        type: str,
        timestamp: datetime,
        *,
        surface: str | None = None,
        actor: Mapping[str, str] | None = None,
        execution_id: str | None = None,
        capability_id: str | None = None,
        correlation_id: str | None = None,
        parent_execution_id: str | None = None,
        input_hash: str | None = None,
        data: Mapping[str, JSON] = _NO_DATA,
    ) -> AuditEvent:
        """Build one event, its time as a `datetime`."""
        ids = (execution_id, capability_id, correlation_id, parent_execution_id)
        return super().__new__(cls, type, timestamp, surface, actor, *ids, input_hash, data)

    @property
    def timestamp(self) -> datetime:
        """When it happened, aware, in UTC."""
        at = self.at
        return at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"AuditEvent is immutable: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"AuditEvent is immutable: cannot delete {name!r}")

    def __copy__(self) -> AuditEvent:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> AuditEvent:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # A read-only mapping does not pickle: its plain form goes, and is frozen again.
        actor = None if self.actor is None else dict(self.actor)
        plain = self._replace(actor=actor, data=to_plain(self.data))
        return _rebuilt, tuple(plain)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AuditEvent):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((self.type, self.timestamp, self.execution_id))

    def __repr__(self) -> str:
        return f"AuditEvent({self.type!r}, execution_id={self.execution_id!r})"

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in FIELDS)

    def to_dict(self) -> dict[str, JSON]:
        """Return the event as plain JSON, always with every field, in field order.

        Never raises: a value with no JSON form is replaced by the name of its type.
        """
        fields = dict(zip(FIELDS, self._values(), strict=True))
        return cast("dict[str, JSON]", to_plain(fields))


def _rebuilt(*fields: JSON) -> AuditEvent:
    """Make a pickled event again."""
    return AuditEvent._make(freeze(value) for value in fields)


def freeze(value: JSON) -> JSON:
    """Return a deep-frozen copy of plain JSON: read-only mappings and tuples.

    Returns:
        Scalars and unknown objects as they are.
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Mapping):
        fields = cast("Mapping[str, JSON]", value)
        return MappingProxyType({key: freeze(item) for key, item in fields.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in cast("list[JSON]", value))
    return value
