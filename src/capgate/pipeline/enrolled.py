"""A capability as one engine knows it: what was declared, under its effective id, and its view."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from capgate.capability import CapabilityView, Definition


class Enrolled(NamedTuple):
    """One declaration and the read-only view of it, both made once."""

    definition: Definition
    view: CapabilityView
