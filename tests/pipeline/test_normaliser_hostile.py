"""Groups, nested calls and objects that lie: what nobody raises on purpose, normalised."""

from __future__ import annotations

import anyio
import pytest

from capgate import (
    Actor,
    ApprovalRule,
    CapabilityError,
    Context,
    DomainError,
    Effect,
    Engine,
    Failed,
    Forbidden,
    public_error,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
GENERIC = {"code": "INTERNAL_ERROR", "message": "The operation failed.", "retryable": False}


class KnownError(DomainError):
    message = "Known."


class MutinousError(DomainError):
    """Raises when any of its fields is read."""

    @property
    def message(self):
        raise RuntimeError("secret")

    @message.setter
    def message(self, value): ...


class LyingError(DomainError):
    message = 42
    retryable = "yes"


class SurrogateError(DomainError):
    message = "\ud800"


class ForgedError(CapabilityError):
    """Claims a code that it was not built with."""

    @property
    def code(self):
        return "CAPABILITY_NOT_FOUND"

    @property
    def public_message(self):
        raise RuntimeError("secret")


class ImpostorError(Exception):
    """Says that it is a CapabilityError."""

    code = "POLICY_DENIED"
    public_message = "secret"
    exposed = True
    execution_id = None

    @property
    def __class__(self):
        return CapabilityError


class UnprintableError(Exception):
    def __str__(self):
        raise RuntimeError("secret")

    __repr__ = __str__


class UnhashableError(Exception):
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("secret")

    def __getattribute__(self, name):
        raise RuntimeError("secret")


def quiet(**settings):
    """Build an engine that keeps its private failures to itself."""
    return Engine("test", on_internal_error=lambda _: None, **settings)


async def fails(raised, **settings):
    """Call a capability whose handler raises, and return its outcome."""
    engine = quiet(**settings)

    @engine.capability("cap")
    async def cap() -> None:
        """Raise."""
        raise raised

    outcome = await engine.attempt("cap", actor=DANA)
    assert isinstance(outcome, Failed)
    return outcome


def concealed(outcome):
    """Tell whether an outcome is EXECUTION_FAILED in the generic shape, retryable by nobody."""
    error = outcome.error
    return error.code == "EXECUTION_FAILED" and public_error(error) == GENERIC


@pytest.mark.parametrize("depth", [1, 3])
async def test_a_group_with_one_leaf_is_that_leaf(depth):
    """A group is read as its only leaf, however deep it is wrapped."""
    raised = KnownError()
    for _ in range(depth):
        raised = ExceptionGroup("wrapped", [raised])
    assert (await fails(raised)).error.public_message == "Known."


async def test_a_task_group_of_the_handler_is_read_as_its_failure():
    """What a child task of the handler raised is the handler's failure."""
    engine = quiet()

    @engine.capability("cap")
    async def cap() -> None:
        """Fail in a child."""

        async def child():
            raise Forbidden("Not yours.")

        async with anyio.create_task_group() as group:
            group.start_soon(child)

    outcome = await engine.attempt("cap", actor=DANA)
    assert (outcome.error.code, outcome.error.public_message) == ("FORBIDDEN", "Not yours.")


async def test_a_group_with_several_leaves_is_concealed():
    """Several leaves are nobody's contract, even if each of them is."""
    assert concealed(await fails(ExceptionGroup("both", [KnownError(), KnownError()])))


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (MutinousError, ("x",)),
        (LyingError, ()),
        (SurrogateError, ()),
        (ForgedError, ("INPUT_INVALID", "secret")),
        (ImpostorError, ()),
        (UnprintableError, ()),
        (UnhashableError, ()),
    ],
)
async def test_an_error_that_lies_or_breaks_is_unknown(kind, arguments):
    """An error object whose fields raise or lie is never trusted and never breaks the call."""
    audit = MemoryAudit()
    outcome = await fails(kind(*arguments), audit=audit)
    assert concealed(outcome)
    assert audit.events[-1].data["code"] == "EXECUTION_FAILED"
    assert "secret" not in repr([event.to_dict() for event in audit.events])


@pytest.mark.parametrize("attempted", [False, True])
@pytest.mark.parametrize(
    ("inner_input", "code"), [({}, "INPUT_INVALID"), ({"n": -1}, "EXECUTION_FAILED")]
)
async def test_a_nested_failure_is_never_the_outer_callers(inner_input, code, attempted):
    """An inner failure that escapes is the outer EXECUTION_FAILED, not exposed, cause kept."""
    engine = quiet()

    @engine.capability("inner")
    async def inner(n: int) -> int:
        """Refuse what is negative."""
        raise KnownError

    @engine.capability("outer")
    async def outer(ctx: Context) -> int:
        """Call on."""
        if attempted:
            return (await ctx.attempt("inner", inner_input)).unwrap()
        return await ctx.invoke("inner", inner_input)

    outcome = await engine.attempt("outer", actor=DANA)
    assert concealed(outcome)
    assert outcome.error.details is None
    assert outcome.error.__cause__.code == code
    assert outcome.error.execution_id != outcome.error.__cause__.execution_id


async def test_a_nested_approval_that_escapes_is_concealed():
    """A nested APPROVAL_REQUIRED is the outer call's own failure; the request stays pending."""
    engine = quiet()

    @engine.capability("inner", approval=ApprovalRule())
    async def inner() -> None:
        """Need a yes."""

    @engine.capability("outer")
    async def outer(ctx: Context) -> None:
        """Call on."""
        await ctx.invoke("inner")

    outcome = await engine.attempt("outer", actor=DANA)
    assert concealed(outcome)
    assert outcome.error.__cause__.code == "APPROVAL_REQUIRED"
    assert [record.status for record in await engine.approvals.find()] == ["pending"]


async def test_a_saved_error_of_another_call_is_concealed():
    """A handler that raises the error of an earlier execution shows nothing of it."""
    engine = quiet()

    @engine.capability("deny")
    async def deny(reason: str) -> None:
        """Never reached."""

    saved = (await engine.attempt("deny", {}, actor=DANA)).error
    assert saved.code == "INPUT_INVALID"
    assert concealed(await fails(saved))


async def test_a_stray_cancellation_is_a_failure():
    """A cancellation that nobody asked for, a saved one, is the handler's failure."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            saved = cancelled
    outcome = await fails(saved)
    assert concealed(outcome)
    assert outcome.effect is Effect.UNKNOWN


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_an_exit_of_the_process_is_recorded_and_goes_on(kind, grouped):
    """KeyboardInterrupt and SystemExit are audited as failed INTERNAL_ERROR and re-raised."""
    exit_ = kind()
    raised = BaseExceptionGroup("group", [exit_]) if grouped else exit_
    audit = MemoryAudit()
    with pytest.raises(type(raised)) as caught:
        await fails(raised, audit=audit)
    assert caught.value is raised
    last = audit.events[-1]
    assert (last.type, last.data["code"]) == ("capability.failed", "INTERNAL_ERROR")
    assert last.data["effect"] == "unknown"


async def test_a_native_cancellation_is_recorded_and_goes_on():
    """A cancellation from outside is audited as CANCELLED, native, and re-raised untouched."""
    audit = MemoryAudit()
    engine = quiet(audit=audit)

    @engine.capability("cap")
    async def cap() -> None:
        """Wait."""
        await anyio.sleep_forever()

    with anyio.move_on_after(0) as scope:
        await engine.attempt("cap", actor=DANA)
    assert scope.cancelled_caught
    last = audit.events[-1]
    assert (last.type, last.data["code"]) == ("capability.cancelled", "CANCELLED")
    assert last.data["native"] is True
