"""The error that Python raises for a coroutine that will not close, raised by somebody else."""

import pytest

from capgate import Engine, FailureStage, Pipeline, Stage
from capgate.audit import MemoryAudit

TEXT = "coroutine ignored GeneratorExit"


async def test_a_handler_that_closes_another_coroutine_badly_has_failed():
    """A handler in which that error comes up is EXECUTION_FAILED, with its event."""
    audit = MemoryAudit()
    engine = Engine("e", audit=audit, on_internal_error=lambda error: None)

    @engine.capability("act", access="public")
    async def act() -> None:
        """Act."""
        raise RuntimeError(TEXT)

    outcome = await engine.attempt(act)
    assert outcome.error.code == "EXECUTION_FAILED"
    assert [event.type for event in audit.events][-1] == "capability.failed"


class Broken(Stage):
    name = "broken"
    failure_stage = FailureStage.POLICY

    async def run(self, invocation):
        raise RuntimeError(TEXT)


@pytest.mark.parametrize("text", [TEXT])
async def test_a_stage_that_raises_it_fails_closed(text):
    """A custom stage that raises that text refuses with its own code."""
    engine = Engine(
        "e",
        pipeline=Pipeline.default().before("execution", Broken()),
        on_internal_error=lambda error: None,
    )

    @engine.capability("act", access="public")
    async def act() -> str:
        """Act."""
        return text

    assert (await engine.attempt(act)).error.code == "POLICY_FAILED"
