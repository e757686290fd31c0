"""Awaiting foreign code within a bound: a late answer is none, a made-up cancellation is caught."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from capgate.call import Overrun, Stray, bounded, call_bounded
from capgate.errors import is_exit


async def answer():
    await anyio.lowlevel.checkpoint()
    return "answer"


async def saved_cancellation():
    """Return a cancellation that was real once."""
    kept = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep(1)
        except anyio.get_cancelled_exc_class() as raised:
            kept.append(raised)
            raise
    return kept[0]


async def test_an_answer_in_time_is_the_answer():
    """What answers in time is returned."""
    assert await bounded(answer(), 10) == "answer"


async def test_no_answer_in_time_is_an_overrun():
    """What does not answer in time is interrupted."""
    with pytest.raises(Overrun, match=r"within 0\.01 s"):
        await bounded(anyio.sleep_forever(), 0.01)


async def test_a_late_answer_is_an_overrun():
    """What swallows its interruption and answers all the same has overrun."""

    async def stubborn():
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return "late"

    with pytest.raises(Overrun):
        await bounded(stubborn(), 0.01)


async def test_a_late_failure_is_an_overrun():
    """What breaks while being interrupted has overrun; what it raised is the cause."""
    broken = ValueError("late")

    async def breaks():
        try:
            await anyio.sleep_forever()
        finally:
            raise broken

    with pytest.raises(Overrun) as caught:
        await bounded(breaks(), 0.01)
    assert caught.value.__cause__ is broken


async def test_a_failure_is_raised_as_it_is():
    """What fails in time raises its own exception."""
    broken = ValueError("own")

    async def breaks():
        raise broken

    with pytest.raises(ValueError, match="own") as caught:
        await bounded(breaks(), 10)
    assert caught.value is broken


async def test_own_timeout_error_is_no_overrun():
    """A TimeoutError of the awaited code's own is its failure."""

    async def breaks():
        raise TimeoutError("own")

    with pytest.raises(TimeoutError, match="own"):
        await bounded(breaks(), 10)


async def test_a_made_up_cancellation_is_a_stray():
    """A cancellation nobody asked for becomes an ordinary exception, with it as cause."""
    saved = await saved_cancellation()

    async def lies():
        raise saved

    with pytest.raises(Stray) as caught:
        await bounded(lies(), 10)
    assert caught.value.__cause__ is saved


async def test_a_real_cancellation_goes_through():
    """A cancellation from outside is no overrun and no stray."""
    with anyio.move_on_after(0.01) as scope:
        await bounded(anyio.sleep_forever(), 10)
    assert scope.cancelled_caught


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
async def test_exits_go_through(kind):
    """What must leave the process goes through, even late."""

    async def leaves():
        try:
            await anyio.sleep_forever()
        finally:
            raise kind

    with pytest.raises(kind):
        await bounded(leaves(), 0.01)


async def test_call_bounded_takes_plain_functions():
    """A plain function's value is taken as it is, an awaitable's is awaited."""
    assert await call_bounded(lambda a, b: a + b, 1, 2, seconds=1) == 3
    assert await call_bounded(answer, seconds=1) == "answer"
    with pytest.raises(Overrun):
        await call_bounded(anyio.sleep_forever, seconds=0.01)


@pytest.mark.parametrize(
    ("raised", "answer"),
    [
        (KeyboardInterrupt(), True),
        (SystemExit(), True),
        (GeneratorExit(), True),
        (BaseExceptionGroup("g", [ValueError(), BaseExceptionGroup("h", [SystemExit()])]), True),
        (ExceptionGroup("g", [ValueError()]), False),
        (ValueError(), False),
        (BaseException(), False),
    ],
)
def test_what_must_leave_the_process(raised, answer):
    """Exits are recognised at any depth of a group; nothing else is one."""
    assert is_exit(raised) is answer


def test_an_exit_cannot_hide():
    """An object that lies about its class, or raises when read, is judged by its real type."""

    class Liar(ValueError):
        @property
        def __class__(self):
            return KeyboardInterrupt

    class Hiding(BaseExceptionGroup):
        @property
        def exceptions(self):
            raise LookupError

    assert is_exit(Liar()) is False
    assert is_exit(Hiding("g", [SystemExit()])) is True
