"""Where a refusal at discovery failed: told to the operator, never to the caller."""

from __future__ import annotations

import pytest

from capgate import deny, hide, policy, public_error


def breaking(request):
    raise ValueError("cause")


@pytest.mark.parametrize(
    "judge", [lambda r: hide(), lambda r: deny(), breaking], ids=["hide", "deny", "broken"]
)
async def test_a_refusal_by_a_policy_has_stage_policy(world, judge):
    """In any phase; outside it looks like what is missing (SI-8)."""
    built = world(policies=[policy("judge", phases={"discovery"})(judge)]).add()
    refused = (await built.call()).error
    missing = (await built.call(id="missing")).error
    assert (refused.code, refused.stage) == ("CAPABILITY_NOT_FOUND", "policy")
    assert missing.stage == "discovery"
    assert public_error(refused) == public_error(missing)
