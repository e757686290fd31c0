"""The normaliser, end to end: what a handler raises, and what its caller gets."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    CapabilityError,
    DomainError,
    Effect,
    Engine,
    Failed,
    Forbidden,
    Unauthenticated,
    public_error,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
GENERIC = {"code": "INTERNAL_ERROR", "message": "The operation failed.", "retryable": False}


class SoldOutError(DomainError):
    message = "It is sold out."
    retryable = True


class GoneError(SoldOutError):
    message = "It is gone."


class UntouchedError(DomainError):
    message = "Nothing was done."
    effect = Effect.NONE


class DetailedError(DomainError):
    code = "DETAILED"
    message = "See details."
    public_details = True


class ForeignError(Exception):
    pass


class NarrowForeignError(ForeignError):
    pass


async def fails(raised, *, sync=False, exceptions=None, audit=None, **fields):
    """Call a capability whose handler raises."""
    engine = Engine("test", exceptions=exceptions, audit=audit, on_internal_error=lambda _: None)

    async def in_loop() -> None:
        """Raise."""
        raise raised

    def in_thread() -> None:
        """Raise."""
        raise raised

    engine.capability("cap", **fields)(in_thread if sync else in_loop)
    outcome = await engine.attempt("cap", actor=DANA)
    assert isinstance(outcome, Failed)
    return outcome


def concealed(outcome):
    """Tell whether a failure is the one shape of everything nobody declared."""
    error = outcome.error
    facts = (error.code, error.stage, error.public_message, error.exposed, error.retryable)
    shape = ("EXECUTION_FAILED", "execution", "The operation failed.", False, False)
    return facts == shape and error.details is None and public_error(error) == GENERIC


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("raised", "code", "stage", "message"),
    [
        (Unauthenticated("Sign in."), "UNAUTHENTICATED", "authentication", "Sign in."),
        (Unauthenticated(), "UNAUTHENTICATED", "authentication", "Authentication is required."),
        (Forbidden("Not yours."), "FORBIDDEN", "authorization", "Not yours."),
        (Forbidden(), "FORBIDDEN", "authorization", "This operation is not allowed."),
    ],
)
async def test_a_refusal_of_the_handler_keeps_its_words(raised, sync, code, stage, message):
    """`Unauthenticated` and `Forbidden` become their codes, stages and messages, cause kept."""
    outcome = await fails(raised, sync=sync)
    error = outcome.error
    assert (error.code, error.stage, error.public_message) == (code, stage, message)
    assert public_error(error) == {"code": code, "message": message, "retryable": False}
    assert error.__cause__ is raised
    assert outcome.effect is error.effect is Effect.UNKNOWN


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("errors", [(), (SoldOutError,), (DomainError,)])
async def test_a_domain_error_is_contract(sync, errors):
    """A `DomainError` that is listed, by a base, or not restricted, is shown with its message."""
    outcome = await fails(GoneError(), sync=sync, errors=errors)
    assert public_error(outcome.error) == {
        "code": "EXECUTION_FAILED",
        "message": "It is gone.",
        "retryable": True,
    }
    assert (outcome.error.stage, outcome.error.reason) == ("execution", "GONE_ERROR")


async def test_an_unlisted_domain_error_breaks_the_contract():
    """A `DomainError` outside the capability's `errors` is concealed; its code is the reason."""
    outcome = await fails(UntouchedError("secret"), errors=[SoldOutError])
    assert concealed(outcome)
    assert outcome.error.reason == "UNTOUCHED_ERROR"


async def test_details_leave_only_by_opting_in():
    """`public_details` shows the code and the details; without it neither leaves."""
    shown = await fails(DetailedError(details={"left": 2}))
    kept = await fails(SoldOutError("No.", details={"left": 2}))
    assert public_error(shown.error)["details"] == {"reason": "DETAILED", "left": 2}
    assert "details" not in public_error(kept.error)


async def test_a_domain_error_can_say_that_nothing_happened():
    """A class with `effect = Effect.NONE` makes the outcome's effect none."""
    assert (await fails(UntouchedError())).effect is Effect.NONE
    assert (await fails(SoldOutError())).effect is Effect.UNKNOWN


@pytest.mark.parametrize("side_effect", ["none", "read"])
async def test_what_only_reads_has_no_effect(side_effect):
    """A failure of a reading capability has effect none, whatever was raised."""
    assert (await fails(ValueError(), side_effect=side_effect)).effect is Effect.NONE


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("target", "code", "message"),
    [
        (SoldOutError, "EXECUTION_FAILED", "It is sold out."),
        (Forbidden, "FORBIDDEN", "This operation is not allowed."),
        (Unauthenticated, "UNAUTHENTICATED", "Authentication is required."),
    ],
)
async def test_a_mapped_exception_is_its_target(target, sync, code, message):
    """`Engine(exceptions=…)` reads an exception as the mapped class; its own text stays private."""
    raised = NarrowForeignError("secret")
    outcome = await fails(raised, sync=sync, exceptions={ForeignError: target})
    assert outcome.error.code == code
    assert outcome.error.public_message == message
    assert outcome.error.__cause__ is raised


async def test_the_most_specific_mapping_wins():
    """Of two mappings that fit, the one of the nearer class counts, in any order."""
    mapping = {ForeignError: Forbidden, NarrowForeignError: SoldOutError}
    for exceptions in (mapping, dict(reversed(mapping.items()))):
        outcome = await fails(NarrowForeignError(), exceptions=exceptions)
        assert outcome.error.public_message == "It is sold out."


async def test_a_mapping_does_not_widen_the_contract():
    """An exception mapped to a `DomainError` that the capability does not list is concealed."""
    outcome = await fails(
        ForeignError(), exceptions={ForeignError: GoneError}, errors=[UntouchedError]
    )
    assert concealed(outcome)


async def test_an_execution_failure_of_the_author_is_kept():
    """A handler's own EXECUTION_FAILED keeps its words and flags, not its stage and effect."""
    raised = CapabilityError(
        "EXECUTION_FAILED", "Try later.", retryable=True, exposed=True, stage="policy"
    )
    outcome = await fails(raised)
    assert public_error(outcome.error) == {
        "code": "EXECUTION_FAILED",
        "message": "Try later.",
        "retryable": True,
    }
    assert (outcome.error.stage, outcome.effect) == ("execution", Effect.UNKNOWN)


@pytest.mark.parametrize(
    "code",
    [
        "CAPABILITY_NOT_FOUND",
        "INPUT_INVALID",
        "UNAUTHENTICATED",
        "POLICY_DENIED",
        "APPROVAL_REQUIRED",
        "TIMEOUT",
        "CANCELLED",
        "RATE_LIMITED",
        "OUTPUT_INVALID",
        "INTERNAL_ERROR",
    ],
)
async def test_a_handler_cannot_forge_a_code(code):
    """Any other code that a handler builds is concealed, and the outcome is Failed (SI-9)."""
    assert concealed(await fails(CapabilityError(code, "forged", exposed=True)))


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    "raised",
    [ValueError("secret"), TimeoutError("secret"), StopIteration("secret"), OSError(5, "secret")],
    ids=lambda raised: type(raised).__name__,
)
async def test_anything_else_is_concealed(raised, sync):
    """Any other exception, a handler's own TimeoutError included, is concealed."""
    audit = MemoryAudit()
    outcome = await fails(raised, sync=sync, audit=audit)
    assert concealed(outcome)
    assert audit.events[-1].type == "capability.failed"
    assert "secret" not in f"{outcome!r}{outcome.error}{outcome.error!r}"


async def test_a_native_timeout_inside_the_handler_is_a_failure():
    """A `fail_after` of the handler's own is its TimeoutError, not the call's TIMEOUT."""
    engine = Engine("test", on_internal_error=lambda _: None)

    @engine.capability("slow")
    async def slow() -> None:
        """Give up by itself."""
        with anyio.fail_after(0):
            await anyio.sleep_forever()

    assert concealed(await engine.attempt("slow", actor=DANA))
