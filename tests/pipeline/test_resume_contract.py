"""A capability that changed between the yes and the execution."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import pytest
from pydantic import Field

from capgate import ApprovalConfig, ApprovalRule, allow, policy


@pytest.fixture
def deploy(world, store):
    """Build the engine of one deployment over the same store."""

    def build(handler=None, *, kind="exact", policies=(), own=(), **fields):
        built = world(approvals=ApprovalConfig(store, contract=kind), policies=policies)
        return built.add(handler=handler, approval=ApprovalRule(), policies=own, **fields)

    return build


async def capped(n: Annotated[int, Field(le=10)]) -> int:
    return n


async def narrow(n: int) -> int:
    return n


async def wider(n: int, note: str = "") -> int:
    return n


async def other_output(n: int) -> str:
    return str(n)


async def text(n: str) -> str:
    return n


async def stricter(n: int, reason: str) -> int:
    return n


def named(name):
    return policy(name)(lambda request: allow())


CHANGES = {
    "input-schema": {"handler": wider},
    "output-schema": {"handler": other_output},
    "side-effect": {"handler": narrow, "side_effect": "destructive"},
    "policy-added": {"handler": narrow, "own": [named("new")]},
    "engine-policy-added": {"handler": narrow, "policies": [named("new")]},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_exact_refuses_what_has_changed(deploy, change):
    """The fingerprint covers schemas, side effect and policies' names; nothing is burnt."""
    record = await deploy(narrow).granted({"n": 5})
    built = deploy(**change)
    error = (await built.resume(record)).error
    assert (error.code, error.exposed, error.retryable) == (
        "APPROVAL_INPUT_MISMATCH",
        False,
        False,
    )
    assert await built.status(record) == "approved"


async def test_exact_is_the_default(world, store):
    """Whoever says nothing gets the strict one."""
    before = world(approvals=store).add(handler=narrow, approval=ApprovalRule())
    record = await before.granted({"n": 5})
    after = world(approvals=store).add(handler=wider, approval=ApprovalRule())
    assert (await after.resume(record)).error.code == "APPROVAL_INPUT_MISMATCH"


@pytest.mark.parametrize("kind", ["exact", "compatible"])
async def test_an_unchanged_capability_resumes_after_a_restart(deploy, kind):
    """The fingerprint is the same in every process that declares the same thing."""
    record = await deploy(narrow, kind=kind).granted({"n": 5})
    assert (await deploy(narrow, kind=kind).resume(record)).output == 5


async def test_words_and_order_are_no_change(deploy):
    """Titles, descriptions and tags are not part of the contract."""
    record = await deploy(narrow).granted({"n": 5})
    built = deploy(narrow, title="Other", description="Other words.", tags={"t"})
    assert (await built.resume(record)).output == 5


@pytest.mark.parametrize("change", ["output-schema", "side-effect", "policy-added", "looser"])
async def test_compatible_lets_todays_contract_judge(deploy, change):
    """A contract that still takes the stored value, unchanged, executes it."""
    record = await deploy(capped, kind="compatible").granted({"n": 5})
    changed = CHANGES.get(change, {"handler": narrow})
    assert (await deploy(kind="compatible", **changed).resume(record)).status == "completed"


async def test_compatible_adds_nothing_to_what_was_approved(deploy):
    """SI-6: a new default would make it another value than the approved one."""
    record = await deploy(narrow, kind="compatible").granted({"n": 5})
    built = deploy(wider, kind="compatible")
    assert (await built.resume(record)).error.code == "INPUT_INVALID"
    assert await built.status(record) == "approved"


@pytest.mark.parametrize("handler", [text, stricter])
async def test_compatible_refuses_what_no_longer_fits(deploy, handler):
    """INPUT_INVALID, and the approval is not burnt (reference A 117)."""
    record = await deploy(narrow, kind="compatible").granted({"n": 5})
    built = deploy(handler, kind="compatible")
    error = (await built.resume(record)).error
    assert error.code == "INPUT_INVALID"
    assert await built.status(record) == "approved"
    assert (await deploy(narrow, kind="compatible").resume(record)).output == 5


async def test_compatible_still_notices_a_tampered_record(deploy, store):
    """SI-5: leniency about the contract is none about the record."""
    record = await deploy(narrow, kind="compatible").granted({"n": 5})
    store.alter = lambda record: replace(record, input={"n": 6})
    built = deploy(narrow, kind="compatible")
    assert (await built.resume(record)).error.code == "APPROVAL_INPUT_MISMATCH"
