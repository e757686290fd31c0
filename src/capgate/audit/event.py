"""The audit event: one immutable fact about an execution.

Here: the value, its plain form and the freezing of its data. Not here: who emits which event
(the pipeline) and where it goes (the sinks).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, cast

from capgate.audit.plain import to_plain

if TYPE_CHECKING:
    from datetime import datetime

    from capgate.errors import JSON

_NO_DATA: Mapping[str, JSON] = MappingProxyType({})
_SCALARS = frozenset({str, int, float, bool, type(None)})


class AuditEvent(NamedTuple):
    """One fact about an execution, with no input, output or credential in it (SI-10).

    A tuple, because up to three are built on every call: construction copies nothing. Whoever
    builds one passes an aware UTC `timestamp`, an `actor` that is a read-only `{"id", "kind"}`,
    and `data` that is deep-frozen (`freeze` makes it so): sinks share the one object.
    """

    type: str
    timestamp: datetime
    surface: str | None
    actor: Mapping[str, str] | None
    execution_id: str | None
    capability_id: str | None
    correlation_id: str | None = None
    parent_execution_id: str | None = None
    input_hash: str | None = None
    data: Mapping[str, JSON] = _NO_DATA

    def to_dict(self) -> dict[str, JSON]:
        """Return the event as plain JSON, always with every field, in field order.

        Never raises: a value with no JSON form is replaced by the name of its type.
        """
        return cast("dict[str, JSON]", to_plain(self._asdict()))


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
