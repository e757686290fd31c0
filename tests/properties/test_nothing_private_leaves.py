"""No private text leaves: canaries in inputs, causes, notes and credentials stay inside."""

from __future__ import annotations

import json
import traceback
from typing import Annotated, Any

import anyio
import structlog.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr, field_validator

from capgate import (
    Actor,
    ApprovalRule,
    AuditConfig,
    CapabilityError,
    Context,
    DomainError,
    Engine,
    Pipeline,
    Redact,
    Stage,
    allow,
    hide,
    policy,
    public_approval,
    public_error,
)
from capgate.audit import MemoryAudit

CAUSE = "canary-of-a-cause"
PAYLOAD = "canary-of-an-input"
HELD = "canary-of-a-secret"
TOKEN = "canary-of-a-credential"
FACT = "canary-of-an-attribute"
DANA = Actor("u_dana", attributes={"email": FACT}, permissions={FACT}, display_name=FACT)

PLACES = (
    "authenticate",
    "discovery",
    "validator",
    "access",
    "authorize",
    "policy",
    "stage",
    "execution",
    "handler",
    "nested",
    "output",
    "redact",
    "late stage",
    "nowhere",
)


class KeptError(DomainError):
    """Outside of what the capability lists."""


class ListedError(DomainError):
    message = "Known."


def grouped(error):
    return ExceptionGroup(CAUSE, [error, OSError(CAUSE)])


ERRORS = {
    "value": lambda: ValueError(CAUSE),
    "group": lambda: grouped(ValueError(CAUSE)),
    "forged": lambda: CapabilityError("EXECUTION_FAILED", details={"n": CAUSE}),
    "unlisted": lambda: KeptError(CAUSE, details={"n": CAUSE}),
    "details": lambda: ListedError(details={"n": CAUSE}),
    "key": lambda: KeyError(CAUSE),
    "unicode": lambda: UnicodeDecodeError("utf-8", CAUSE.encode(), 0, 1, CAUSE),
}


def raise_(kind, payload):
    """Raise an error with canaries in its text, its cause, its notes and its frames."""
    kept = payload
    error = ERRORS[kind]()
    error.add_note(f"{CAUSE} {kept}"[: len(CAUSE)])
    try:
        raise OSError(CAUSE)
    except OSError as cause:
        raise error from cause


class Order(BaseModel):
    name: str
    secret: SecretStr
    n: Annotated[int, Field(ge=0)] = 0

    @field_validator("name")
    @classmethod
    def judge(cls, name: str) -> str:
        """Break on one name."""
        if name.endswith("break"):
            raise ValueError(f"{CAUSE} {name}")
        return name


class Breaking(Stage):
    def __init__(self, name, breaks):
        self.name = name
        self.breaks = breaks

    async def run(self, invocation):
        await anyio.lowlevel.checkpoint()
        self.breaks(self.name)


def world(place, kind, *, hides):
    """Build an engine in which one place raises."""

    def breaks(here, answer=None):
        if here == place:
            raise_(kind, PAYLOAD)
        return answer

    def judge(name, phase):
        said = hide() if hides and phase == "discovery" else allow()
        return policy(name, phases={phase})(lambda request: breaks(name, said))

    async def authenticate(credentials):
        return breaks("authenticate", DANA)

    audit = MemoryAudit()
    pipeline = Pipeline.default().before("policy", Breaking("stage", breaks))
    engine = Engine(
        "test",
        pipeline=pipeline.after("output-validation", Breaking("late stage", breaks)),
        policies=[
            judge("discovery", "discovery"),
            judge("policy", "invocation"),
            judge("execution", "execution"),
        ],
        authenticate=authenticate,
        authorize=lambda request: breaks("authorize", True),
        audit=AuditConfig([audit], verbose=True, hash_inputs=True),
    )
    register(engine, breaks)
    return engine, audit


def register(engine, breaks):
    """Add the capabilities `inner`, `cap` and `gated`."""

    @engine.capability("inner")
    def inner() -> None:
        """Break in a thread."""
        breaks("nested")

    def redact(value):
        return breaks("redact", value)

    async def cap(order: Order, ctx: Context) -> dict[str, Any]:
        """Break, call on, or give the input back."""
        breaks("handler")
        await ctx.invoke("inner")
        bad = breaks_output(breaks)
        return {"name": order.name, "secret": order.secret.get_secret_value(), "bad": bad}

    fields = {"errors": [ListedError], "access": lambda request: breaks("access", True)}
    engine.capability("cap", redact=Redact(output=redact), **fields)(cap)
    rule = Redact(approval_input=lambda value: "shown")
    engine.capability("gated", approval=ApprovalRule(), redact=rule, **fields)(cap)


def breaks_output(breaks):
    """Return what has no JSON form, where the output is to break."""
    try:
        breaks("output")
    except BaseException:
        return float("nan")
    return 1


INPUTS = st.sampled_from(
    [
        {"name": PAYLOAD, "secret": HELD},
        {"name": f"{PAYLOAD} break", "secret": HELD},
        {"name": PAYLOAD, "secret": HELD, "n": PAYLOAD},
        {"name": [PAYLOAD], "secret": {PAYLOAD: HELD}},
        {"name": PAYLOAD, "secret": HELD, "n": -1},
        {PAYLOAD: PAYLOAD},
        PAYLOAD,
        [PAYLOAD],
        {"name": PAYLOAD, "secret": HELD, "n": PAYLOAD.encode()},
        {"name": PAYLOAD, "secret": HELD, "n": {PAYLOAD}},
    ]
)
WHO = st.sampled_from([{"actor": DANA}, {"credentials": TOKEN}, {}])
SECRETS = (CAUSE, PAYLOAD, HELD, TOKEN, FACT)


def said_of(outcome):
    """Return everything that may be shown of an outcome, as text."""
    said = [repr(outcome), str(outcome), outcome.execution_id]
    error = getattr(outcome, "error", None)
    if error is not None:
        shape = public_error(error)
        for issue in shape.get("details", {}).get("issues", ()):
            # An unknown key is named by its path: it is the caller's own word for it.
            issue["path"] = issue["path"].replace(PAYLOAD, "")
        said += [str(error), repr(error), error.public_message, json.dumps(shape)]
    if outcome.status == "approval-required":
        said += [repr(outcome.approval), json.dumps(public_approval(outcome.approval))]
    return " ".join(said)


def logged(logs):
    """Return what was logged, and apart from it the text of the tracebacks, without locals."""
    plain, traces = [], []
    for entry in logs:
        private = {key: entry[key] for key in ("exc_info", "exception") if key in entry}
        plain.append(repr({key: entry[key] for key in entry if key not in private}))
        for value in private.values():
            text = value if isinstance(value, str) else "".join(traceback.format_exception(value))
            traces.append(text)
    return " ".join(plain), " ".join(traces)


@settings(deadline=None, max_examples=400)
@given(
    st.sampled_from(PLACES),
    st.sampled_from(sorted(ERRORS)),
    INPUTS,
    WHO,
    st.sampled_from(["cap", "gated", "nope"]),
    st.booleans(),
)
async def test_no_canary_is_in_any_reply(place, kind, payload, who, name, hides):
    """No reply, event or log line holds private text; a traceback only the cause (SI-9, SI-10)."""
    engine, audit = world(place, kind, hides=hides)
    with structlog.testing.capture_logs() as logs:
        outcome = await engine.attempt(name, payload, **who)
    events = json.dumps([event.to_dict() for event in audit.events])
    plain, traces = logged(logs)
    for where, text in (("reply", said_of(outcome)), ("events", events), ("logs", plain)):
        assert not [secret for secret in SECRETS if secret in text], where
    assert not [secret for secret in (HELD, TOKEN, FACT) if secret in traces]
