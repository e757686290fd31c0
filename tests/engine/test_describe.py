"""`describe`, `catalog` and `explain`: what trusted tooling reads of an engine."""

from __future__ import annotations

import anyio
import pytest
import structlog.testing
from pydantic import BaseModel

from capgate import (
    Actor,
    ApprovalRule,
    CapabilityError,
    Engine,
    Library,
    Pipeline,
    Stage,
    allow,
    deny,
    hide,
    policy,
    require_approval,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")


class Order(BaseModel):
    id: str
    amount: int = 1


def engine_of(**settings):
    """Build an engine with two capabilities."""
    engine = Engine("test", on_internal_error=lambda _: None, **settings)

    @engine.capability(
        "orders.get",
        title="Get",
        side_effect="read",
        risk="low",
        tags={"orders"},
        expose={"direct", "mcp"},
        annotations={"hint": {"deep": [1]}},
        adapters={"mcp": {"name": "get"}},
    )
    async def get(order: Order) -> Order:
        """Get an order.

        This paragraph is not for models.
        """
        return order

    @engine.capability("orders.refund", approval=ApprovalRule(), idempotent=True)
    async def refund(id: str) -> None:
        """Refund an order."""

    return engine


def test_a_description_has_every_fact():
    """`describe` gives schemas, metadata and fingerprint."""
    found = engine_of().describe("orders.get")
    assert (found.id, found.title, found.description) == ("orders.get", "Get", "Get an order.")
    assert (found.side_effect, found.risk, found.idempotent) == ("read", "low", False)
    assert (found.tags, found.expose) == ({"orders"}, {"direct", "mcp"})
    assert found.requires_approval is False
    assert found.input_schema["type"] == "object"
    assert set(found.input_schema["properties"]) == {"id", "amount"}
    assert found.input_schema["required"] == ["id"]
    assert found.annotations == {"hint": {"deep": [1]}}
    assert found.adapters == {"mcp": {"name": "get"}}
    assert len(found.fingerprint) == 64


def test_a_description_is_deep_frozen():
    """Nothing that `describe` returns can be changed, at any depth, and nothing is shared."""
    engine = engine_of()
    found = engine.describe("orders.get")
    with pytest.raises(AttributeError):
        found.id = "other"
    for change in (
        lambda: found.input_schema.update(type="null"),
        lambda: found.input_schema["properties"].pop("id"),
        lambda: found.input_schema["required"].append("amount"),
        lambda: found.annotations["hint"]["deep"].append(2),
    ):
        with pytest.raises((TypeError, AttributeError)):
            change()
    assert engine.describe("orders.get").input_schema["required"] == ["id"]


def test_the_catalogue_has_every_capability_in_order():
    """`catalog` lists everything, exposed or not, in order of registration, as a tuple."""
    engine = engine_of()

    @engine.capability("staged", expose=set())
    async def staged() -> None:
        """Reachable nowhere."""

    lines = engine.catalog()
    assert isinstance(lines, tuple)
    assert [line.id for line in lines] == ["orders.get", "orders.refund", "staged"]
    assert [line.requires_approval for line in lines] == [False, True, False]
    with pytest.raises(AttributeError):
        lines[0].risk = "low"


@pytest.mark.parametrize("unknown", ["nope", "", "orders", "orders.get ", "ORDERS.GET", "\ud800"])
def test_an_unknown_id_is_not_found(unknown):
    """`describe` of an unknown id raises CAPABILITY_NOT_FOUND."""
    with pytest.raises(CapabilityError) as caught:
        engine_of().describe(unknown)
    assert (caught.value.code, caught.value.stage) == ("CAPABILITY_NOT_FOUND", "discovery")


def test_a_handle_describes_what_it_is_registered_as():
    """`describe` takes a handle of the engine, prefixed or not."""
    library = Library("lib", "1")

    @library.capability
    async def ping() -> None:
        """Do nothing."""

    engine = Engine("test")
    engine.include(library, prefix="far")
    assert engine.describe(ping).id == "far.ping"


def test_the_fingerprint_follows_the_contract():
    """Another side effect, policy or schema is another fingerprint; another title is not."""

    @policy("p")
    def rule(request):
        return allow()

    def fingerprint(**fields):
        engine = Engine("test")

        async def cap(n: int) -> int:
            """Give back."""
            return n

        engine.capability("cap", **fields)(cap)
        return engine.describe("cap").fingerprint

    plain = fingerprint()
    assert plain == fingerprint(title="Other")
    changed = [
        fingerprint(side_effect="read"),
        fingerprint(policies=[rule]),
        fingerprint(output_schema={"type": "string"}),
    ]
    assert len({plain, *changed}) == 4


async def explained(*, actor=DANA, payload=None, **settings):
    """Explain a call, and check that it left no trace."""
    audit, ran = MemoryAudit(), []
    fields = settings.pop("fields", {})
    engine = Engine("test", audit=audit, on_internal_error=lambda _: None, **settings)

    @engine.capability("cap", **fields)
    async def cap(n: int = 1) -> None:
        """Note that it ran."""
        ran.append(n)

    with structlog.testing.capture_logs() as logs:
        found = await engine.explain("cap", payload or {}, actor=actor)
    assert (audit.events, ran, await engine.approvals.find()) == ([], [], [])
    assert [entry["event"] for entry in logs] == ["explained"]
    return found


def rule(answer, *phases):
    @policy("rule", phases=set(phases) or {"invocation"})
    def judge(request):
        assert request.dry_run is True
        return answer

    return judge


async def test_an_explanation_tells_every_stage_but_execution():
    """A call that would run passes every stage before execution, in order, without a trace."""
    found = await explained(policies=[rule(allow())])
    assert found.verdict == "would-execute"
    stages = [stage for stage, _, _ in found.stages]
    assert stages[-2:] == ["policy", "approval"]
    assert {"input-validation", "authentication", "authorization"} <= set(stages)
    assert {verdict for _, verdict, _ in found.stages} == {"passed"}


@pytest.mark.parametrize(
    ("options", "stage", "detail"),
    [
        ({"payload": {"n": "x"}}, "input-validation", "INPUT_INVALID"),
        ({"actor": None}, "authentication", "unauthenticated"),
        ({"fields": {"access": lambda request: False}}, "authorization", "forbidden"),
        ({"policies": [rule(deny("No."))]}, "policy", "policy-denied"),
        ({"policies": [rule(hide())]}, "policy", "hidden"),
        ({"policies": [rule(None)]}, "policy", "policy-failed"),
        ({"policies": [rule(hide(), "discovery")]}, "discovery", "hidden"),
    ],
)
async def test_an_explanation_tells_the_true_refusal(options, stage, detail):
    """An explanation ends at the stage that refuses and tells the concealed truth."""
    found = await explained(**options)
    assert found.verdict == "refused"
    assert found.stages[-1] == (stage, "refused", detail)


@pytest.mark.parametrize(
    "options",
    [
        {"policies": [rule(require_approval("Ask."))]},
        {"fields": {"approval": ApprovalRule()}},
    ],
)
async def test_an_explanation_tells_of_an_approval_without_asking(options):
    """A call that would be suspended says so; no record is made."""
    found = await explained(**options)
    assert found.verdict == "approval-required"
    assert found.stages[-1][:2] == ("approval", "approval-required")


async def test_an_explanation_asks_custom_stages():
    """A custom stage is asked too, and its refusal is told under its name."""

    class Closed(Stage):
        name = "hours"

        async def run(self, invocation):
            await anyio.lowlevel.checkpoint()
            raise CapabilityError("POLICY_DENIED", "Closed.")

    found = await explained(pipeline=Pipeline.default().before("policy", Closed()))
    assert found.stages[-1] == ("hours", "refused", "policy-denied")


@pytest.mark.parametrize(("name", "surface"), [("nope", "direct"), ("cap", "mcp")])
async def test_an_explanation_of_what_is_missing(name, surface):
    """Explaining what is unknown or not exposed tells which of the two it is."""
    engine = Engine("test")

    @engine.capability("cap")
    async def cap() -> None:
        """Do nothing."""

    found = await engine.explain(name, {}, actor=DANA, surface=surface)
    truth = "unknown" if name == "nope" else "not-exposed"
    assert (found.verdict, found.stages) == ("refused", (("discovery", "refused", truth),))
