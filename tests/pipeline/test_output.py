"""Output validation and redaction, end to end: what a caller gets of what a handler returned."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, SecretStr
from typing_extensions import TypedDict

from capgate import (
    Actor,
    ConfigurationError,
    Engine,
    Failed,
    Limits,
    Redact,
    public_error,
)
from capgate.audit import MemoryAudit

DANA = Actor("u_dana")
GENERIC = {"code": "INTERNAL_ERROR", "message": "The operation failed.", "retryable": False}


class Receipt(BaseModel):
    id: str
    card: str = "4242"


@dataclasses.dataclass
class Parcel:
    tags: list[str]


class Row(TypedDict):
    n: int


class HostileError(Exception):
    pass


class Hostile:
    def __getattribute__(self, name):
        raise HostileError


def world(handler, **fields):
    """Build an engine with the capability `cap`, and its audit."""
    audit = MemoryAudit()
    engine = Engine(
        "test",
        audit=audit,
        limits=Limits(policy_timeout=0.2),
        on_internal_error=lambda _: None,
    )
    engine.capability("cap", **fields)(handler)
    return engine, audit


def returning(value, annotation=Any, *, sync=False):
    """Make a handler that returns `value` under a return annotation."""

    async def in_loop():
        """Give."""
        return value

    def in_thread():
        """Give."""
        return value

    handler = in_thread if sync else in_loop
    handler.__annotations__["return"] = annotation
    return handler


async def withheld(handler, **fields):
    """Call, and check that the output is withheld; returns the outcome."""
    engine, audit = world(handler, **fields)
    outcome = await engine.attempt("cap", actor=DANA)
    assert isinstance(outcome, Failed)
    error, last = outcome.error, audit.events[-1]
    assert (error.code, error.stage) == ("OUTPUT_INVALID", "output-validation")
    assert (error.retryable, error.exposed, outcome.effect) == (False, False, "done")
    assert public_error(error) == GENERIC
    assert (last.type, last.data["stage"]) == ("capability.failed", "output-validation")
    assert (last.data["executed_before_failure"], last.data["attempts"]) == (True, 1)
    return outcome


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (3, int),
        (None, None),
        ("text", str),
        (10**400, int),
        (-0.0, float),
        (Decimal("1.50"), Decimal),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime),
        ([{"n": 1}], list[Row]),
        ({"a": [1, None, "x"]}, Any),
        (Receipt(id="r"), Receipt),
        (Parcel(["a"]), Parcel),
    ],
)
async def test_a_valid_output_arrives_typed(value, annotation, sync):
    """What keeps the contract arrives as the declared type, equal to what was returned."""
    engine, _ = world(returning(value, annotation, sync=sync))
    output = await engine.invoke("cap", actor=DANA)
    assert (output, type(output)) == (value, type(value))


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("secret", int),
        (None, int),
        (3, None),
        ({"n": "secret"}, Row),
        ({}, Receipt),
        (Receipt.model_construct(id=3), Receipt),
        (math.nan, float),
        (math.inf, float),
        ({"deep": [math.nan]}, Any),
        ("\ud800", str),
        ({1: "secret"}, Any),
        (object(), Any),
        (returning, Any),
        (Hostile(), Any),
        (Hostile(), Receipt),
    ],
    ids=lambda value: type.__call__(type, value).__name__,
)
async def test_an_invalid_output_is_withheld(value, annotation, sync):
    """What breaks the contract or the JSON boundary is OUTPUT_INVALID, effect done (SI-9)."""
    outcome = await withheld(returning(value, annotation, sync=sync))
    assert "secret" not in f"{outcome!r}{outcome.error!r}{outcome.error}"


@pytest.mark.parametrize("shape", ["cycle", "depth"])
async def test_an_endless_output_is_withheld(shape):
    """A cycle, or nesting beyond the limit, is OUTPUT_INVALID."""
    value: list = []
    if shape == "cycle":
        value.append(value)
    else:
        for _ in range(100_000):
            value = [value]
    await withheld(returning(value))


async def test_an_output_validator_that_raises_is_withheld():
    """What a validator of the output's model raises stays private."""

    class Odd(BaseModel):
        n: int

        def model_post_init(self, context):
            raise ValueError("secret")

    outcome = await withheld(returning({"n": 1}, Odd))
    assert "secret" not in f"{outcome.error.details}{outcome.error.public_message}"


async def test_the_callers_output_is_not_the_handlers_object():
    """The output shares no mutable object with what the handler returned."""
    kept = {"tags": ["a"]}
    engine, _ = world(returning(kept))
    output = await engine.invoke("cap", actor=DANA)
    output["tags"].append("b")
    assert kept == {"tags": ["a"]}


async def test_a_replayed_output_is_not_shared_either():
    """Two callers of one idempotency key do not share the output they get."""
    engine, _ = world(returning({"tags": ["a"]}))
    options = {"actor": DANA, "idempotency_key": "k"}
    first = await engine.invoke("cap", {}, **options)
    first["tags"].append("b")
    again = await engine.attempt("cap", {}, **options)
    assert (again.output, again.replayed) == ({"tags": ["a"]}, True)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_redaction_maps_what_the_caller_gets(asynchronous):
    """`redact.output`, sync or async, sees the true output and makes the shown one."""
    seen = []

    def redact(receipt):
        seen.append(receipt.card)
        return receipt.model_copy(update={"card": "****"})

    async def redact_later(receipt):
        await anyio.lowlevel.checkpoint()
        return redact(receipt)

    rule = Redact(output=redact_later if asynchronous else redact)
    engine, _ = world(returning(Receipt(id="r"), Receipt), redact=rule)
    assert (await engine.invoke("cap", actor=DANA)).card == "****"
    assert seen == ["4242"]


def broken(value):
    raise ValueError("secret")


async def broken_later(value):
    raise ValueError("secret")


async def hanging(value):
    await anyio.sleep_forever()


@pytest.mark.parametrize(
    "redact", [broken, broken_later, hanging, lambda value: "secret", lambda value: None]
)
async def test_a_redaction_that_breaks_withholds(redact):
    """A redaction that raises, hangs or breaks the contract is OUTPUT_INVALID, effect done."""
    await withheld(returning(3, int), redact=Redact(output=redact))


async def test_redaction_is_not_asked_about_an_invalid_output():
    """The true output is validated first: redaction never sees what breaks the contract."""
    seen = []
    await withheld(returning("secret", int), redact=Redact(output=seen.append))
    assert seen == []


async def test_a_stray_cancellation_of_a_redaction_withholds():
    """A cancellation that a redaction made up is its own fault, not the caller's."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class() as cancelled:
            saved = cancelled

    def redact(value):
        raise saved

    await withheld(returning(3, int), redact=Redact(output=redact))


async def test_an_idempotent_repeat_gets_the_redacted_output():
    """A replay shows what the first caller was shown, never the true output."""
    rule = Redact(output=lambda value: "shown")
    engine, _ = world(returning("secret", str), redact=rule)
    options = {"actor": DANA, "idempotency_key": "k"}
    assert await engine.invoke("cap", {}, **options) == "shown"
    assert await engine.invoke("cap", {}, **options) == "shown"


@pytest.mark.parametrize("junk", [3, "x", {}])
def test_a_redaction_must_be_callable(junk):
    """What cannot be called is refused when the rule is made."""
    with pytest.raises(ConfigurationError):
        Redact(output=junk)


async def test_an_output_without_a_return_annotation_is_refused_at_registration():
    """A handler without a return annotation and without a schema is a ConfigurationError."""
    engine = Engine("test")

    async def cap(n: int):
        """Give."""

    with pytest.raises(ConfigurationError, match="return"):
        engine.capability("cap")(cap)


async def test_a_secret_type_stays_a_secret():
    """An output with a `SecretStr` never shows the secret in anything but the value itself."""

    class Key(BaseModel):
        key: SecretStr

    engine, audit = world(returning(Key(key=SecretStr("s3cr3t")), Key))
    outcome = await engine.attempt("cap", actor=DANA)
    said = f"{outcome!r}{[event.to_dict() for event in audit.events]}"
    assert "s3cr3t" not in said
