"""What may be configured, and how a mistake is told."""

from __future__ import annotations

import pytest

from capgate import Engine
from capgate.audit import AuditConfig, MemoryAudit
from capgate.errors import ConfigurationError


def codes(excinfo):
    return [issue.code for issue in excinfo.value.issues]


def test_one_sink_or_several():
    """A single callable and a list of them are both accepted."""
    one, two = MemoryAudit(), MemoryAudit()
    assert AuditConfig(one).sinks == (one,)
    assert AuditConfig([one, two]).sinks == (one, two)


def test_what_an_engine_may_be_given():
    """None, a sink, a list and a configuration all make a configuration."""
    sink = MemoryAudit()
    config = AuditConfig(sink, strict=True)
    assert AuditConfig.of(None).sinks == ()
    assert AuditConfig.of(sink) == AuditConfig([sink])
    assert AuditConfig.of(config) is config


def test_strict_needs_a_sink():
    """An engine whose strict audit nobody would write is refused at construction."""
    with pytest.raises(ConfigurationError) as caught:
        Engine("test", audit=AuditConfig(strict=True))
    assert codes(caught) == ["AUDIT_STRICT_WITHOUT_SINK"]


@pytest.mark.parametrize("sinks", ["memory", None, 3, [3], [None], MemoryAudit, [MemoryAudit]])
def test_what_is_no_sink_is_refused(sinks):
    """A value that cannot take events, and a class in place of an instance, are refused."""
    with pytest.raises(ConfigurationError) as caught:
        AuditConfig(sinks)
    assert codes(caught) == ["AUDIT_SINK_INVALID"]


def test_every_issue_is_told_at_once():
    """One error names each sink and each option that is wrong."""
    with pytest.raises(ConfigurationError) as caught:
        AuditConfig([1, MemoryAudit(), 2], strict="yes", verbose=1)
    assert [issue.where for issue in caught.value.issues] == [
        "sinks[0]",
        "sinks[2]",
        "strict",
        "verbose",
    ]


def test_a_configuration_cannot_be_changed():
    """A configuration is frozen."""
    with pytest.raises(AttributeError):
        AuditConfig([]).strict = True
