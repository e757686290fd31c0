"""What has to be done around a fork, on systems that can fork."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _nothing() -> None:
    """Do nothing."""


def at_fork(
    *,
    before: Callable[[], object] = _nothing,
    in_parent: Callable[[], object] = _nothing,
    in_child: Callable[[], object] = _nothing,
) -> None:
    """Have these called around every fork from now on; where there are no forks, never."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)
