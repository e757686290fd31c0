"""Events for the tests of this room."""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType

import pytest
import structlog.testing

from capgate.audit import AuditEvent, freeze

ACTOR = MappingProxyType({"id": "usr_1", "kind": "user"})


@pytest.fixture
def make():
    """Build an event; the execution id tells it from others."""

    def build(execution_id="exe_1", event_type="capability.started", **data):
        now = datetime(2026, 1, 1, tzinfo=UTC)
        frozen = freeze(data)
        return AuditEvent(
            event_type,
            now,
            surface="direct",
            actor=ACTOR,
            execution_id=execution_id,
            capability_id="orders.get",
            correlation_id="cor_1",
            data=frozen,
        )

    return build


@pytest.fixture
def log():
    """What is logged during the test, as dictionaries."""
    with structlog.testing.capture_logs() as entries:
        yield entries


@pytest.fixture
def plain():
    """Wrap an async sink in a function that does not look async."""

    def wrap(sink):
        def call(event):
            return sink(event)

        return call

    return wrap
