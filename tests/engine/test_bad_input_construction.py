"""Junk at construction: everything an application builds is checked when it is built."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    AuditConfig,
    CancelToken,
    CapabilityError,
    ConfigurationError,
    Engine,
    Library,
    Limits,
    Redact,
    Retry,
    allow,
    canonical_json,
    combine,
    deny,
    input_hash,
    policy,
    public_error,
    require_approval,
    requires,
)


@policy("fine")
def fine(request):
    return allow()


class Hostile:
    """An object whose attributes cannot be read."""

    def __getattribute__(self, name):
        raise RuntimeError("secret")


SETTINGS = [
    ("name", [None, "", "  ", 3, b"x"]),
    ("version", [None, "", 3]),
    ("surfaces", ["moon", 3, [3], [""], None]),
    ("pipeline", [3, "default", [], object()]),
    ("policies", [3, "p", fine, [3], [lambda request: allow()], [fine, fine], None]),
    ("authenticate", [3, "x", object()]),
    ("authorize", [3, True, "public", object()]),
    ("approvals", [3, "memory", object()]),
    ("idempotency", [3, "memory", object()]),
    ("audit", [3, "sink", object(), [3]]),
    ("limits", [3, None, {"timeout": 3}, object()]),
    ("exceptions", [3, [ValueError], {ValueError: ValueError}, {3: CapabilityError}, {"x": "y"}]),
    ("on_internal_error", [3, "x", object()]),
    ("clock", [3, "now", object()]),
    ("new_id", [3, "x", object()]),
    ("jitter", [3, "x", object()]),
    ("store", [3, "sqlite://", object()]),
]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in SETTINGS for value in values]
)
def test_a_wrong_setting_of_an_engine_is_refused(name, value):
    """Each setting of the wrong kind is a ConfigurationError that names it."""
    settings = {"name": "test", name: value}
    with pytest.raises(ConfigurationError, match=name if name != "audit" else "sink"):
        Engine(settings.pop("name"), **settings)


def test_an_unknown_setting_is_refused():
    """A misspelt setting is a TypeError: no gate is lost to a typo."""
    for typo in ("policy", "authorise", "auditing", "limit", "approval"):
        with pytest.raises(TypeError, match=typo):
            Engine("test", **{typo: None})


def test_every_wrong_setting_is_told_at_once():
    """One ConfigurationError names every setting that is wrong."""
    with pytest.raises(ConfigurationError) as caught:
        Engine("test", policies=3, clock=3, authorize=3, exceptions=3)
    assert {issue.where for issue in caught.value.issues} >= {
        "policies",
        "clock",
        "authorize",
        "exceptions",
    }
    assert isinstance(caught.value, TypeError)
    assert not isinstance(caught.value, CapabilityError)


LIMITS = [
    *[
        (name, value)
        for name in (
            "timeout",
            "policy_timeout",
            "discovery_timeout",
            "approval_expires_in",
            "audit_timeout",
            "cleanup_grace",
        )
        for value in (0, -1, math.nan, math.inf, True, "5", None, timedelta(0), 10**400)
    ],
    *[
        (name, value)
        for name in ("policy_concurrency", "max_depth", "max_concurrency")
        for value in (0, -1, 1.5, math.nan, True, "5")
    ],
    *[("max_queue", value) for value in (-1, 1.5, True, "5", None)],
]


@pytest.mark.parametrize(("name", "value"), LIMITS)
def test_a_wrong_limit_is_refused(name, value):
    """A duration must be finite and greater than 0, a count a whole number; True is neither."""
    with pytest.raises(ConfigurationError, match=name):
        Limits(**{name: value})


@pytest.mark.parametrize(
    "build",
    [
        lambda: Retry(1),
        lambda: Retry(0),
        lambda: Retry(True),
        lambda: Retry(2.0),
        lambda: Retry("3"),
        lambda: Retry(3, backoff=0),
        lambda: Retry(3, max_backoff=math.inf),
        lambda: Retry(3, when=3),
        lambda: ApprovalRule(""),
        lambda: ApprovalRule(3),
        lambda: ApprovalRule(reason=" "),
        lambda: ApprovalRule(expires_in=0),
        lambda: ApprovalRule(expires_in=True),
        lambda: ApprovalRule(approvers="boss"),
        lambda: ApprovalRule(allow_self="no"),
        lambda: ApprovalRule(quorum=0),
        lambda: ApprovalRule(quorum=True),
        lambda: Redact(output=3),
        lambda: Redact(approval_input="x"),
        requires,
        lambda: requires(""),
        lambda: requires(3),
        lambda: Library("", "1"),
        lambda: Library("lib", None),
        lambda: policy("")(fine.evaluate),
        lambda: policy(3),
        lambda: policy("p", phases=set()),
        lambda: policy("p", phases={"never"}),
        lambda: policy("p", phases="invocation"),
        lambda: policy("p")(3),
        lambda: combine("c"),
        lambda: combine("c", 3),
        lambda: combine("", fine),
        lambda: combine("c", fine, fine),
        lambda: ApprovalConfig(handler=3),
        lambda: ApprovalConfig(contract="loose"),
        lambda: ApprovalConfig(keys=3),
        lambda: ApprovalConfig(keys=["text"]),
        lambda: ApprovalConfig(load_actor=3),
        lambda: AuditConfig(3),
        lambda: Engine("test", audit=AuditConfig([], strict=True)),
        lambda: AuditConfig([print], strict="yes"),
    ],
)
def test_a_wrong_declaration_is_a_configuration_error(build):
    """What an application declares wrongly is a ConfigurationError, at once."""
    with pytest.raises(ConfigurationError):
        build()


@pytest.mark.parametrize(
    "build",
    [
        lambda: Actor(3),
        lambda: Actor(None),
        lambda: Actor(""),
        lambda: Actor("  "),
        lambda: Actor("u", "robot"),
        lambda: Actor("u", 3),
        lambda: Actor("u", permissions="all"),
        lambda: Actor("u", permissions=[3]),
        lambda: Actor("u", permissions=3),
        lambda: Actor("u", attributes=[1]),
        lambda: Actor("u", attributes={1: 2}),
        lambda: Actor("u", display_name=3),
        lambda: deny(3),
        lambda: deny("x", reason=3),
        lambda: require_approval(""),
        lambda: require_approval(None),
        lambda: require_approval("x", type=3),
        lambda: require_approval("x", expires_in=0),
        lambda: require_approval("x", expires_in=True),
        lambda: require_approval("x", approvers=3),
        lambda: require_approval("x", allow_self=1),
        lambda: CancelToken().cancel(3),
        lambda: CapabilityError("NOPE"),
        lambda: CapabilityError(3),
        lambda: CapabilityError("FORBIDDEN", 3),
        lambda: CapabilityError("FORBIDDEN", retryable="yes"),
        lambda: CapabilityError("FORBIDDEN", stage="nowhere"),
        lambda: canonical_json(object()),
        lambda: canonical_json({1: 2}),
        lambda: canonical_json(math.nan),
        lambda: input_hash({"a": {1, 2}}),
    ],
)
def test_a_wrong_value_is_a_typed_error(build):
    """A value that cannot be is a TypeError or a ValueError when it is made."""
    with pytest.raises((TypeError, ValueError)):
        build()


@pytest.mark.parametrize("make", [lambda: None, lambda: 3, object, Hostile, ValueError, dict])
def test_the_public_shape_never_raises(make):
    """`public_error` of anything at all is the generic shape."""
    assert public_error(make()) == {
        "code": "INTERNAL_ERROR",
        "message": "The operation failed.",
        "retryable": False,
    }
