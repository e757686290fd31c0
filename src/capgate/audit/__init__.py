"""Audit: the events, the sinks that take them, and their delivery.

The only door of this room for other rooms; no logic here.
"""

from __future__ import annotations

from capgate.audit.chain import ChainedAudit, DurableSink, SegmentedSink
from capgate.audit.delivery import AuditFailure, Auditor
from capgate.audit.event import AuditEvent, freeze
from capgate.audit.jsonl import JsonlAudit
from capgate.audit.lines import Tail, parse_line
from capgate.audit.links import Head, link
from capgate.audit.memory import MemoryAudit
from capgate.audit.segments import read_jsonl
from capgate.audit.sink import AuditConfig, AuditSink
from capgate.audit.structlog_sink import StructlogAudit
from capgate.audit.trimming import check_trimming, recorded_before, trimming_event
from capgate.audit.verify import VerifyReport, require_whole, verify_chain

__all__ = [
    # The event
    "AuditEvent",
    "freeze",
    # Sinks and their configuration
    "AuditSink",
    "AuditConfig",
    "MemoryAudit",
    "StructlogAudit",
    "JsonlAudit",
    # The hash chain
    "ChainedAudit",
    "DurableSink",
    "SegmentedSink",
    "Head",
    "Tail",
    "link",
    "parse_line",
    "read_jsonl",
    "verify_chain",
    "VerifyReport",
    # Retention
    "check_trimming",
    "recorded_before",
    "require_whole",
    "trimming_event",
    # Delivery
    "Auditor",
    "AuditFailure",
]
