"""The approval settings are checked when they are written."""

from __future__ import annotations

import pytest

from capgate.approvals import ApprovalConfig, MemoryApprovals
from capgate.errors import ConfigurationError

KEY = b"sixteen bytes ok"


async def answer(record):
    return None


def test_the_defaults_are_strict():
    """No store, no handler, no keys, and an exact contract."""
    config = ApprovalConfig()
    assert (config.store, config.handler, config.keys) == (None, None, ())
    assert (config.contract, config.load_actor) == ("exact", None)


def test_good_settings_are_kept():
    """The store comes first; keys become a tuple."""
    store = MemoryApprovals()
    config = ApprovalConfig(store, handler=answer, keys=[KEY], contract="compatible")
    assert config.store is store
    assert config.keys == (KEY,)


def test_everything_wrong_is_reported_at_once():
    """One error names every setting."""
    with pytest.raises(ConfigurationError) as caught:
        ApprovalConfig(object(), handler=1, keys=[b"short", "x" * 16], contract="x", load_actor=2)
    assert [issue.where for issue in caught.value.issues] == [
        "approvals.store",
        "approvals.keys[0]",
        "approvals.keys[1]",
        "approvals.contract",
        "approvals.handler",
        "approvals.load_actor",
    ]


@pytest.mark.parametrize("keys", [KEY, "sixteen bytes ok", None, 5, {KEY}])
def test_keys_are_a_sequence_of_keys(keys):
    """One bare key is a common slip: it would be sixteen integers."""
    with pytest.raises(ConfigurationError):
        ApprovalConfig(keys=keys)


def test_a_store_class_is_not_a_store():
    """Forgetting the parentheses is found at construction."""
    with pytest.raises(ConfigurationError):
        ApprovalConfig(MemoryApprovals)


def test_keys_are_not_in_the_repr():
    """SI-9: a secret does not get into a log line by way of repr."""
    assert "sixteen" not in repr(ApprovalConfig(keys=[KEY]))
