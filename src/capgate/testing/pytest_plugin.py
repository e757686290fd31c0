"""The pytest plugin: fixtures only, each importing what it needs, so that loading it is cheap."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from capgate.engine import Engine
    from capgate.testing.captured import CapturedAudit
    from capgate.testing.clock import FakeClock
    from capgate.testing.engine import TestEngine

_DOOR = "capgate.testing"


@pytest.fixture
def capgate_clock() -> FakeClock:
    """The clock of every engine that `capgate_engine` makes in this test."""
    clock: FakeClock = import_module(_DOOR).FakeClock()
    return clock


@pytest.fixture
def capgate_audit() -> CapturedAudit:
    """The audit of every engine that `capgate_engine` makes in this test."""
    audit: CapturedAudit = import_module(_DOOR).CapturedAudit()
    return audit


@pytest.fixture
def capgate_engine(
    capgate_clock: FakeClock, capgate_audit: CapturedAudit
) -> Callable[..., TestEngine]:
    """A factory: `capgate_engine(engine, …)` is `TestEngine(engine, …)`.

    Unless told otherwise, all engines of a test share the clock, the audit and the counter of ids.
    """
    door = import_module(_DOOR)
    new_id = door.counting_ids()

    def make(engine: Engine[Any] | None = None, **options: Any) -> TestEngine:
        shared = {"clock": capgate_clock, "audit": capgate_audit, "new_id": new_id}
        made: TestEngine = door.TestEngine(engine, **{**shared, **options})
        return made

    return make
