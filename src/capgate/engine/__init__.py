"""The engine and what callers hold of it. The door of this room."""

from __future__ import annotations

from capgate.engine.blocking import BlockingApprovals, BlockingEngine
from capgate.engine.describing import CapabilityDescription, CapabilitySummary, Explanation
from capgate.engine.discover import CapabilityDescriptor, DiscoveryScope
from capgate.engine.drain import DrainReport
from capgate.engine.engine import Engine
from capgate.engine.options import CallOptions, DiscoverOptions, ExplainOptions, ResumeOptions
from capgate.engine.parts import EngineParts
from capgate.engine.settings import Store, UnsafeWarning
from capgate.engine.view import EngineView

__all__ = [
    "BlockingApprovals",
    "CallOptions",
    "ResumeOptions",
    "DiscoverOptions",
    "ExplainOptions",
    "BlockingEngine",
    "CapabilityDescription",
    # Looking
    "CapabilityDescriptor",
    "CapabilitySummary",
    "DiscoveryScope",
    "DrainReport",
    # Calling
    "Engine",
    "EngineView",
    "Explanation",
    # Configuring and closing
    "EngineParts",
    "Store",
    "UnsafeWarning",
]
