"""A store that fails, hangs or lies is an outage, never an answer."""

from __future__ import annotations

import anyio
import pytest
import structlog.testing

from capgate.approvals import Approvals, GuardedStore, MemoryApprovals, RuleBook
from capgate.approvals import store as rules
from capgate.call import Actor
from capgate.errors import CapabilityError, ErrorCode, public_error
from capgate.testing.check import Check
from capgate.testing.contracts_approvals import approval_store_contract
from capgate.testing.sample_approvals import EXPIRY, NOW, TICK, sample, yes

CALLS = {
    "create": (sample("apr_1"),),
    "get": ("apr_1",),
    "decide": ("apr_1", yes("mia"), NOW),
    "consume": ("apr_1", "exe_1", NOW),
    "release": ("apr_1", "exe_1"),
    "withdraw": ("apr_1", NOW),
    "find": (),
    "expire_due": (NOW,),
}

# A caller's mistakes are a ValueError of the store; behind the guard they are an outage.
MISTAKES = {"refuses_an_id_twice", "refuses_an_empty_page"}


class Clock:
    def now(self):
        return NOW


def failing(answer):
    """A store whose every operation does as told."""
    return type("Failing", (), dict.fromkeys(CALLS, answer))()


async def refusal(store, name, *, timeout=5.0) -> CapabilityError:
    guarded = GuardedStore(store, timeout=timeout)
    with pytest.raises(CapabilityError) as caught:
        await getattr(guarded, name)(*CALLS[name])
    return caught.value


def guarded_memory() -> GuardedStore:
    return GuardedStore(MemoryApprovals(), timeout=5.0)


@pytest.mark.parametrize(
    "check",
    [c for c in approval_store_contract(guarded_memory) if c.name not in MISTAKES],
    ids=str,
)
async def test_a_guarded_store_keeps_the_contract(check: Check):
    """The guard changes nothing about a store that works."""
    await check.run()


@pytest.mark.parametrize("name", CALLS)
async def test_a_store_that_raises_is_unavailable(name):
    """Reference A reported an outage as consumed, or let it escape."""
    outage = ConnectionError("canary: pg://secret")

    async def fail(*args, **named):
        raise outage

    refused = await refusal(failing(fail), name)
    assert refused.code is ErrorCode.APPROVAL_UNAVAILABLE
    assert refused.__cause__ is outage
    assert (refused.retryable, refused.exposed) == (True, False)
    assert "canary" not in str(public_error(refused))


@pytest.mark.parametrize("name", CALLS)
async def test_a_store_that_hangs_is_unavailable(name):
    """SI-12: every operation is bounded."""

    async def hang(*args, **named):
        await anyio.sleep_forever()

    assert (await refusal(failing(hang), name, timeout=0.01)).code is (
        ErrorCode.APPROVAL_UNAVAILABLE
    )


async def test_a_cancellation_that_a_store_makes_up_is_an_outage(anyio_backend_name):
    """A driver's own cancelled future is not the caller's cancellation."""
    if anyio_backend_name == "trio":
        pytest.skip("trio's cancellation cannot be raised by hand")

    async def stray(*args, **named):
        raise anyio.get_cancelled_exc_class()

    assert (await refusal(failing(stray), "consume")).code is ErrorCode.APPROVAL_UNAVAILABLE


@pytest.mark.parametrize("name", sorted(CALLS.keys() - {"create", "get"}))
async def test_a_store_that_answers_nonsense_is_unavailable(name):
    """What is no record is no answer."""

    async def lie(*args, **named):
        return [None] if name == "find" else None

    assert (await refusal(failing(lie), name)).code is ErrorCode.APPROVAL_UNAVAILABLE


@pytest.mark.parametrize("name", CALLS)
async def test_a_store_that_is_not_async_is_unavailable(name):
    """A missing `async` is an outage, not a crash of the engine."""
    assert (await refusal(failing(lambda *a, **k: object()), name)).code is (
        ErrorCode.APPROVAL_UNAVAILABLE
    )


async def test_only_refusals_of_approvals_pass():
    """SI-7: a store cannot speak for another stage, nor with a class of its own."""

    class Fake(CapabilityError):
        pass

    for error in (CapabilityError(ErrorCode.CANCELLED), Fake(ErrorCode.APPROVAL_CONSUMED)):

        async def fail(*args, error=error):
            raise error

        assert (await refusal(failing(fail), "consume")).code is ErrorCode.APPROVAL_UNAVAILABLE
    honest = await refusal(MemoryApprovals(), "consume")
    assert honest.code is ErrorCode.APPROVAL_NOT_FOUND


def test_a_store_that_does_not_say_is_not_taken_to_be_durable():
    """The engine warns only where a store says that its records outlive the process."""
    assert GuardedStore(failing(None), timeout=1).durable is False
    assert guarded_memory().durable is False


@pytest.mark.parametrize("verb", ["approve", "reject", "withdraw", "get", "find"])
async def test_an_outage_at_the_desk_is_unavailable(verb):
    """Never reported as missing, decided or expired."""

    async def fail(*args, **named):
        raise OSError

    desk = Approvals(failing(fail), clock=Clock(), rulebook=RuleBook())
    args = () if verb == "find" else ("apr_1",)
    named = {"by": Actor("mia")} if verb in {"approve", "reject", "withdraw"} else {}
    with pytest.raises(CapabilityError) as caught:
        await getattr(desk, verb)(*args, **named)
    assert caught.value.code is ErrorCode.APPROVAL_UNAVAILABLE


@pytest.mark.parametrize("hang", [False, True])
async def test_an_audit_that_fails_changes_no_decision(hang):
    """Nothing observational may change an outcome; the loss is reported."""

    async def emit(*event):
        if hang:
            await anyio.sleep_forever()
        raise RuntimeError

    store = MemoryApprovals()
    await store.create(sample("apr_1", approver_rules=()))
    desk = Approvals(store, clock=Clock(), rulebook=RuleBook(), emit=emit, timeout=0.05)
    with structlog.testing.capture_logs() as logs:
        record = await desk.approve("apr_1", by=Actor("mia"))
    assert record.status == "approved"
    assert [entry["event"] for entry in logs] == ["approval_event_lost"]


async def test_a_decision_that_is_stored_is_told_even_when_its_caller_is_cancelled():
    """Evidence does not depend on the caller's patience."""
    told, store = [], MemoryApprovals()
    await store.create(sample("apr_1", approver_rules=()))

    async def emit(type_, *rest):
        scope.cancel()
        await anyio.lowlevel.checkpoint()
        told.append(type_)

    desk = Approvals(store, clock=Clock(), rulebook=RuleBook(), emit=emit)
    with anyio.CancelScope() as scope:
        await desk.approve("apr_1", by=Actor("mia"))
    assert told == ["capability.approved"]


@pytest.mark.parametrize(
    ("status", "in_time", "late"),
    [
        ("pending", ErrorCode.APPROVAL_PENDING, ErrorCode.APPROVAL_EXPIRED),
        ("approved", None, ErrorCode.APPROVAL_EXPIRED),
        ("rejected", ErrorCode.APPROVAL_REJECTED, ErrorCode.APPROVAL_REJECTED),
        ("cancelled", ErrorCode.APPROVAL_CANCELLED, ErrorCode.APPROVAL_CANCELLED),
        ("consumed", ErrorCode.APPROVAL_CONSUMED, ErrorCode.APPROVAL_CONSUMED),
        ("expired", ErrorCode.APPROVAL_EXPIRED, ErrorCode.APPROVAL_EXPIRED),
    ],
)
def test_what_cannot_be_resumed_says_why(status, in_time, late):
    """Reference A kept a lapsed pending request pending, and retryable, for ever."""
    record = sample("apr_1", status=status)
    for now, expected in ((EXPIRY - TICK, in_time), (EXPIRY, late)):
        code = None
        try:
            rules.check_resumable(record, now)
        except CapabilityError as refused:
            code = refused.code
        assert code is expected
