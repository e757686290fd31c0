"""What a test engine keeps of the application's, and what it replaces."""

from __future__ import annotations

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    AuditConfig,
    CapabilityError,
    Context,
    DomainError,
    Engine,
    ErrorCode,
    FailureStage,
    Limits,
    Pipeline,
    Retry,
    Stage,
    deny,
    policy,
)
from capgate.approvals import MemoryApprovals
from capgate.audit import MemoryAudit
from capgate.idempotency import MemoryIdempotency
from capgate.testing import TestEngine


def saying(text):
    """Return a handler that only says this."""

    def handler() -> str:
        return text

    return handler


def told(engine, description="Tell."):
    """Declare a capability that tells who calls and with what deps."""

    @engine.capability("tell", description=description)
    async def tell(context: Context) -> list[str]:
        return [context.actor.id, str(context.deps), context.surface]

    return tell


class Refuse(Stage):
    """A stage that lets nothing pass."""

    name = "refuse"
    failure_stage = FailureStage.POLICY

    def run(self, invocation):
        raise CapabilityError(ErrorCode.RATE_LIMITED)


async def test_the_pipeline_is_kept():
    """Stages of the application run."""
    own = Engine("own", pipeline=Pipeline.default().before("execution", Refuse()))
    tell = told(own)
    outcome = await TestEngine(own).attempt(tell)
    assert outcome.error.code == "RATE_LIMITED"


class OutOfStock(DomainError):
    code = "OUT_OF_STOCK"
    message = "Nothing left."


async def test_settings_are_kept():
    """Policies, limits, exceptions, surfaces, name and version are the application's."""

    @policy("closed", phases={"invocation"})
    def closed(request) -> object:
        return deny("We are closed.")

    own = Engine(
        "own",
        version="3",
        policies=[closed],
        limits=Limits(max_depth=9),
        exceptions={KeyError: OutOfStock},
        surfaces=["kiosk"],
    )
    kiosk = {"expose": {"kiosk"}, "side_effect": "read", "risk": "low"}
    own.capability("look", description="L.", **kiosk)(saying("seen"))
    engine = TestEngine(own)
    outcome = await engine.attempt("look", surface="kiosk")
    assert (outcome.error.code, outcome.error.public_message) == ("POLICY_DENIED", "We are closed.")
    parts = engine.engine.parts
    assert (parts.name, parts.version, parts.settings.limits.max_depth) == ("own", "3", 9)
    assert repr(engine) == "TestEngine('own')"


async def test_the_manner_of_the_audit_is_kept():
    """A strict audit stays strict, and hashes stay, though the sinks are the test's."""
    lost: list[object] = []
    config = AuditConfig(lost.append, strict=True, hash_inputs=True, verbose=True)
    engine = TestEngine(Engine("own", audit=config))
    told(engine.engine)
    await engine.invoke("tell")
    await engine.discover()
    assert lost == []
    assert engine.audit.of_type("capability.started")[0].input_hash is not None
    assert engine.audit.of_type("capabilities.discovered")[0].data["ids"] == ("tell",)
    assert engine.engine.parts.settings.audit.strict is True


async def test_retries_do_not_wait():
    """Attempts follow each other without a pause."""
    own = Engine("own", exceptions={KeyError: OutOfStock})
    tries: list[int] = []

    class Busy(OutOfStock):
        retryable = True

    retry = Retry(3, backoff=3600, max_backoff=3600)

    @own.capability(description="T.", side_effect="read", retry=retry, errors=[Busy])
    async def sometimes() -> int:
        tries.append(1)
        if len(tries) < 3:
            raise Busy
        return len(tries)

    engine = TestEngine(own)
    assert await engine.invoke(sometimes) == 3


async def test_idempotency_keys_start_anew(shop):
    """Each test engine has keys of its own."""
    for _ in range(2):
        engine = TestEngine(shop.engine)
        first = await engine.attempt("echo", {"text": "a"}, idempotency_key="k")
        second = await engine.attempt("echo", {"text": "a"}, idempotency_key="k")
        assert (first.replayed, second.replayed) == (False, True)


class Database:
    """One store for all, as an application has it."""

    def __init__(self):
        self.approvals = DurableApprovals()
        self.idempotency = None
        self.audit = MemoryAudit()


class DurableApprovals(MemoryApprovals):
    """A store that says its records outlive the process."""

    durable = True


async def load_actor(actor):
    return Actor(actor.id, attributes={"loaded": True})


async def test_the_stores_of_the_application_are_not_touched():
    """Requests, keys and events of a test stay out of the application's database."""
    database = Database()
    database.idempotency = MemoryIdempotency()
    config = ApprovalConfig(load_actor=load_actor)
    own = Engine("own", store=database, approvals=config)
    own.capability("pay", description="P.", approval=ApprovalRule())(saying("paid"))
    engine = TestEngine(own)
    asked = await engine.attempt("pay", idempotency_key="k")
    assert asked.status == "approval-required"
    assert await database.approvals.find() == []
    assert database.audit.events == []
    assert engine.engine.parts.settings.approvals.load_actor is load_actor


def test_a_durable_store_is_no_reason_to_warn(shop):
    """A test that keeps requests in a durable store is not warned about its actors."""
    TestEngine(shop.engine, approvals=DurableApprovals())
