"""The audit of a test: every event in memory, and the one assertion most tests need."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from capgate.audit import MemoryAudit

if TYPE_CHECKING:
    from collections.abc import Sequence


class CapturedAudit(MemoryAudit):
    """A sink that keeps every event until `clear`."""

    __slots__ = ()

    @property
    def types(self) -> list[str]:
        """The types of the events so far, oldest first."""
        return [event.type for event in self.events]

    def assert_sequence(self, *types: str) -> None:
        """Fail unless exactly these events were captured, in this order.

        Use `clear` first to look only at what comes next.

        Raises:
            AssertionError: Showing both sequences, line by line.
        """
        captured = self.types
        if captured != list(types):
            raise AssertionError(_difference(types, captured))

    def __repr__(self) -> str:
        return f"CapturedAudit({self.types})"


def _difference(expected: Sequence[str], captured: Sequence[str]) -> str:
    rows = [
        f"  {number:>3}  {got}" if want == got else f"! {number:>3}  {got}  (expected: {want})"
        for number, (want, got) in enumerate(
            zip_longest(expected, captured, fillvalue="nothing"), start=1
        )
    ]
    return "\n".join([f"{len(captured)} events captured, {len(expected)} expected:", *rows])
