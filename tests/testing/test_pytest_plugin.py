"""The fixtures that come with the installation."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from capgate import Engine
from capgate.testing import CapturedAudit, FakeClock, TestEngine, pytest_plugin

LOADED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("plugin", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
print(sorted({"capgate", "pydantic", "anyio", "structlog", "jsonschema"} & set(sys.modules)))
"""


def test_pytest_finds_it():
    """The installation names the plugin to pytest."""
    (found,) = (each for each in entry_points(group="pytest11") if each.name == "capgate")
    assert found.load().capgate_engine is pytest_plugin.capgate_engine


def test_loading_it_imports_nothing_heavy():
    """Its module alone brings in neither capgate nor what capgate needs."""
    command = [sys.executable, "-I", "-c", LOADED, str(Path(pytest_plugin.__file__))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_fixtures_are_doubles(capgate_clock, capgate_audit):
    """Clock and audit are new ones."""
    assert isinstance(capgate_clock, FakeClock)
    assert isinstance(capgate_audit, CapturedAudit)
    assert capgate_audit.events == []


async def test_the_factory_shares_them(shop, capgate_engine, capgate_audit, capgate_clock):
    """Engines of one test write one story: clock, audit and ids are shared."""
    first, second = capgate_engine(shop.engine), capgate_engine(shop.engine)
    await first.invoke("echo", {"text": "a"})
    capgate_clock.advance("1d")
    await second.invoke("echo", {"text": "b"})
    assert first.audit is second.audit is capgate_audit
    assert {event.execution_id for event in capgate_audit.events} == {"exe_1", "exe_2"}
    assert capgate_audit.events[-1].timestamp == capgate_clock.now()


async def test_the_factory_takes_what_the_class_takes(shop, capgate_engine, capgate_clock):
    """Any option of `TestEngine` can be given, the shared ones too."""
    clock = FakeClock("2030-01-01T00:00:00Z")
    engine = capgate_engine(shop.engine, approvals="auto-approve", clock=clock)
    assert isinstance(engine, TestEngine)
    assert engine.clock is clock is not capgate_clock
    assert await engine.invoke(shop.refund, {"order": "A1"}) == {"A1": 3}


async def test_the_factory_needs_no_engine(capgate_engine):
    """Without an application it makes an empty engine."""
    assert isinstance(capgate_engine().engine, Engine)
