"""Who calls: the identity that authentication established, captured so that nobody can change it.

Only the value lives here. Nothing in this file decides what an actor may do.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast, final, get_args

ActorKind: TypeAlias = Literal["user", "service", "automation", "anonymous"]
ACTOR_KINDS: Final = frozenset(get_args(ActorKind))

_IMMUTABLE: Final = (str, int, float, bool, bytes, type(None))
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


@final
class Actor:
    """One authenticated identity; equal and hashed by kind and id.

    Build it from transport credentials only, never from a call's input.

    Args:
        id: The stable identity, not blank.
        kind: `user`, `service`, `automation` or `anonymous`.
        display_name: A name for people; never used to decide.
        permissions: What `requires(...)` reads.
        attributes: Facts for rules and policies; copied, so later changes have no effect.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: The id is blank or the kind unknown.
    """

    __slots__ = ("shared", "attributes", "display_name", "id", "kind", "permissions", "ref")

    id: str
    kind: ActorKind
    display_name: str | None
    permissions: frozenset[str]
    attributes: Mapping[str, object]
    ref: Mapping[str, str]
    shared: bool

    def __init__(
        self,
        id: str,
        kind: ActorKind = "user",
        *,
        display_name: str | None = None,
        permissions: Collection[str] = frozenset(),
        attributes: Mapping[str, object] = _NOTHING,
    ) -> None:
        """See the class."""
        _check_identity(id, kind, display_name)
        put = object.__setattr__
        # Exact text: a subclass could compare equal to somebody else.
        put(self, "id", str.__str__(id))
        put(self, "kind", str.__str__(kind))
        put(self, "display_name", display_name)
        put(self, "permissions", _permissions(permissions))
        captured = _attributes(attributes)
        put(self, "attributes", MappingProxyType(captured))
        put(self, "ref", MappingProxyType({"id": self.id, "kind": kind}))
        put(self, "shared", all(type(value) in _IMMUTABLE for value in captured.values()))

    @classmethod
    def anonymous(cls) -> Actor:
        """Return the caller nobody identified."""
        return _ANONYMOUS

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Actor is immutable: cannot set {name!r}; build a new Actor")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Actor is immutable: cannot delete {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not Actor:
            return NotImplemented
        return self.id == other.id and self.kind == other.kind

    def __hash__(self) -> int:
        return hash((self.kind, self.id))

    def __repr__(self) -> str:
        return f"Actor({self.id!r}, {self.kind!r})"

    def __copy__(self) -> Actor:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Actor:
        return self if self.shared else self._rebuild(copy.deepcopy(dict(self.attributes), memo))

    def __reduce__(self) -> tuple[object, ...]:
        facts = (self.id, self.kind, self.display_name, self.permissions, dict(self.attributes))
        return (_restore, facts)

    def _rebuild(self, attributes: Mapping[str, object]) -> Actor:
        return Actor(
            self.id,
            self.kind,
            display_name=self.display_name,
            permissions=self.permissions,
            attributes=attributes,
        )


def capture(claimed: object) -> Actor:
    """Return an actor that shares nothing mutable with the caller's.

    Raises:
        TypeError: The claimed value is not an `Actor`.
        Exception: Whatever reading or copying it raised; the caller keeps it private.
    """
    if type(claimed) is not Actor:
        raise TypeError("actor must be an Actor")
    if claimed.shared:
        return claimed
    return copy.deepcopy(claimed)


def check_operator(by: object, doing: str) -> None:
    """Refuse to do what the audit is to know somebody by, for nobody.

    Args:
        by: Who is said to do it.
        doing: The verb, for the error.

    Raises:
        TypeError: Not an `Actor`.
        ValueError: The anonymous one.
    """
    if type(by) is not Actor:
        raise TypeError(f"by must be an Actor, got {type(by).__name__}")
    if by.kind == "anonymous":
        raise ValueError(f"nobody can {doing} anonymously")


def _restore(*facts: object) -> Actor:
    id_, kind, display_name, permissions, attributes = facts
    return Actor(
        id_,  # type: ignore[arg-type]  # the constructor checks what was pickled
        kind,  # type: ignore[arg-type]  # as above
        display_name=display_name,  # type: ignore[arg-type]  # as above
        permissions=permissions,  # type: ignore[arg-type]  # as above
        attributes=attributes,  # type: ignore[arg-type]  # as above
    )


def _check_identity(id_: object, kind: object, display_name: object) -> None:
    if not isinstance(id_, str):
        raise TypeError(f"Actor id must be a str, got {type(id_).__name__}")
    if not id_.strip():
        raise ValueError("Actor id must not be blank")
    if not isinstance(kind, str) or kind not in ACTOR_KINDS:
        raise ValueError(f"Actor kind must be one of {', '.join(sorted(ACTOR_KINDS))}")
    if display_name is not None and not isinstance(display_name, str):
        raise TypeError("Actor display_name must be a str or None")


def _permissions(claimed: object) -> frozenset[str]:
    if isinstance(claimed, str) or not isinstance(claimed, Collection):
        raise TypeError("Actor permissions must be a collection of str, not one str")
    granted = frozenset(cast("Collection[object]", claimed))
    if not all(isinstance(permission, str) for permission in granted):
        raise TypeError("Actor permissions must all be str")
    return frozenset(str.__str__(cast("str", permission)) for permission in granted)


def _attributes(claimed: object) -> dict[str, object]:
    if not isinstance(claimed, Mapping):
        raise TypeError("Actor attributes must be a mapping with str keys")
    given = dict(cast("Mapping[object, object]", claimed))
    captured = copy.deepcopy(given) if given else given
    if not all(isinstance(key, str) for key in captured):
        raise TypeError("Actor attributes must be a mapping with str keys")
    return cast("dict[str, object]", captured)


_ANONYMOUS: Final = Actor("anonymous", "anonymous")
