"""A policy as a value: what a capability names. Declaring and evaluating are another room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One rule that judges calls, or a named group of them.

    Args:
        name: Unique among the policies that judge one capability.
        phases: When it is evaluated: `discovery`, `invocation`, `execution`.
        evaluate: The author's function of a `PolicyRequest`.
        members: The policies of a group; then `evaluate` is None.
    """

    name: str
    phases: frozenset[str]
    evaluate: Callable[..., Any] | None = None
    members: tuple[Policy, ...] = ()
