"""What capgate logs of calls: constants and ids, private causes only where they belong."""

from __future__ import annotations

import traceback

import pytest
import structlog
import structlog.testing

from capgate import (
    Actor,
    ApprovalConfig,
    ApprovalRule,
    Context,
    DomainError,
    Engine,
    Pipeline,
    Redact,
    Stage,
    deny,
    hide,
    policy,
)

DANA = Actor("u_dana")


class SoldOutError(DomainError):
    message = "Sold out."


def world(handler=None, fields=None, **settings):
    """Build an engine with the capability `cap`."""
    engine = Engine("test", **settings)

    async def fail(text: str = "") -> int:
        """Fail."""
        raise ValueError(f"cause {text}")

    engine.capability("cap", **fields or {})(handler or fail)
    return engine


async def logs_of(engine, payload=None):
    """Make one call; returns what was logged, and the outcome."""
    with structlog.testing.capture_logs() as logs:
        outcome = await engine.attempt("cap", payload or {}, actor=DANA)
    return logs, outcome


async def test_a_success_logs_nothing():
    """A completed call leaves no log line."""

    async def give() -> int:
        """Give one."""
        return 1

    logs, _ = await logs_of(world(give))
    assert logs == []


@pytest.mark.parametrize("raised", [SoldOutError])
async def test_a_declared_failure_logs_nothing(raised):
    """A failure that the author declared is no internal error."""

    async def fail() -> int:
        """Fail by contract."""
        raise raised

    logs, outcome = await logs_of(world(fail))
    assert (logs, outcome.error.exposed) == ([], True)


async def test_a_private_failure_is_one_error_event():
    """By default an undeclared failure is one `error` event on the capgate logger, with its ids."""
    logs, outcome = await logs_of(world())
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("internal_error", "error")]
    facts = {key: logs[0][key] for key in ("code", "stage", "execution_id")}
    assert facts == {
        "code": "EXECUTION_FAILED",
        "stage": "execution",
        "execution_id": outcome.execution_id,
    }


async def test_the_hook_is_told_instead():
    """`on_internal_error` gets the error with its cause, and nothing else is logged."""
    told = []
    logs, outcome = await logs_of(world(on_internal_error=told.append))
    assert (logs, told) == ([], [outcome.error])
    assert isinstance(told[0].__cause__, ValueError)


class Calling(Stage):
    name = "calling"

    def __init__(self, function):
        self.function = function

    def run(self, invocation):
        self.function(invocation)


async def give() -> int:
    """Give one."""
    return 1


@pytest.mark.parametrize(
    ("settings", "fields", "code"),
    [
        ({"policies": ["breaks"]}, {}, "POLICY_FAILED"),
        ({}, {"access": "breaks"}, "FORBIDDEN"),
        ({}, {"redact": "breaks"}, "OUTPUT_INVALID"),
        ({"pipeline": "breaks"}, {}, "POLICY_FAILED"),
        ({"authenticate": "breaks"}, {}, "INTERNAL_ERROR"),
    ],
)
async def test_the_hook_is_told_of_every_private_cause(settings, fields, code):
    """A policy, rule, redaction, stage or authenticator that breaks is told once."""
    told, cause = [], ValueError("cause")

    def breaks(_):
        raise cause

    values = {
        "policies": [policy("p")(breaks)],
        "access": breaks,
        "redact": Redact(output=breaks),
        "pipeline": Pipeline.default().before("policy", Calling(breaks)),
        "authenticate": breaks,
    }
    settings, fields = ({key: values[key] for key in each} for each in (settings, fields))
    engine = world(give, fields, on_internal_error=told.append, **settings)
    who = {"credentials": "token"} if "authenticate" in settings else {"actor": DANA}
    outcome = await engine.attempt("cap", {}, **who)
    assert [error.code for error in told] == [code]
    assert told[0].__cause__ is cause
    assert outcome.error == told[0]


@pytest.mark.parametrize("phase", ["discovery", "invocation", "execution"])
@pytest.mark.parametrize("beside", [None, hide(), deny()])
async def test_a_broken_policy_is_told_whatever_the_outcome(phase, beside):
    """What a policy raised is told even where a stricter answer, or concealment, hides it."""
    told, cause = [], ValueError("cause")

    @policy("broken", phases={phase})
    def broken(request):
        raise cause

    other = [] if beside is None else [policy("other", phases={phase})(lambda request: beside)]

    async def give() -> int:
        """Give one."""
        return 1

    engine = world(give, policies=[broken, *other], on_internal_error=told.append)
    assert (await engine.attempt("cap", actor=DANA)).status == "failed"
    assert [error.__cause__ for error in told] == [cause]


async def test_a_policy_that_breaks_in_a_walk_is_told():
    """A policy that breaks at discovery is told, though the walk goes on without its capability."""
    told, cause = [], ValueError("cause")

    @policy("broken", phases={"discovery"})
    def broken(request):
        raise cause

    engine = world(policies=[broken], on_internal_error=told.append)
    assert await engine.discover("direct", actor=DANA) == []
    assert [error.__cause__ for error in told] == [cause]


async def test_a_broken_contract_is_logged_by_its_issues():
    """For an output that breaks its contract only value-free issues are logged, no traceback."""

    async def lie() -> dict[str, int]:
        """Give what is no number."""
        return {"n": "canary"}

    logs, _ = await logs_of(world(lie))
    assert [entry["event"] for entry in logs] == ["contract_broken"]
    assert logs[0]["issues"][0]["path"]
    assert "canary" not in repr(logs)
    assert "exc_info" not in logs[0]


async def test_an_input_is_never_logged():
    """Neither a valid nor an invalid input is in any log line (SI-10)."""

    async def take(n: int, text: str) -> int:
        """Fail without its input."""
        raise ValueError("cause")

    engine = world(take)
    for payload in ({"n": 1, "text": "canary"}, {"n": "canary", "text": "canary"}, "canary"):
        logs, _ = await logs_of(engine, payload)
        for entry in logs:
            shown = {key: value for key, value in entry.items() if key != "exc_info"}
            assert "canary" not in repr(shown)


async def test_the_written_traceback_shows_no_input(capsys):
    """With structlog as it comes, what is printed of a failure has no local variables (SI-10)."""
    engine = world()
    await engine.attempt("cap", {"text": "canary"[::-1]}, actor=DANA)
    written = capsys.readouterr()
    assert "internal_error" in written.out
    assert "ValueError" in written.out
    assert f"{'canary'[::-1]!r}" not in written.out + written.err
    assert "keywords" not in written.out


async def test_structlog_is_never_configured():
    """Building, calling and closing an engine leaves structlog's configuration alone."""
    before = dict(structlog.get_config()), structlog.is_configured()
    async with world(on_internal_error=lambda _: None) as engine:
        await engine.attempt("cap", actor=DANA)
    assert (dict(structlog.get_config()), structlog.is_configured()) == before


async def test_the_handlers_logger_is_bound_to_its_call():
    """`ctx.logger` carries execution, capability, surface and correlation ids, and no input."""

    async def say(text: str, ctx: Context) -> None:
        """Say something."""
        ctx.logger.info("said")

    engine = world(say)
    with structlog.testing.capture_logs() as logs:
        outcome = await engine.attempt("cap", {"text": "canary"}, actor=DANA, correlation_id="c")
    assert logs == [
        {
            "event": "said",
            "log_level": "info",
            "execution_id": outcome.execution_id,
            "capability_id": "cap",
            "surface": "direct",
            "correlation_id": "c",
        }
    ]


async def test_an_inline_approval_handler_that_breaks_is_told():
    """A broken inline handler is told to the hook, and the request stays open."""
    told = []

    async def decide(record):
        raise ValueError("cause")

    async def give() -> int:
        """Give one."""
        return 1

    engine = world(
        give,
        {"approval": ApprovalRule()},
        approvals=ApprovalConfig(handler=decide),
        on_internal_error=told.append,
    )
    logs, outcome = await logs_of(engine)
    assert (outcome.status, logs) == ("approval-required", [])
    assert [(error.code, error.stage) for error in told] == [("INTERNAL_ERROR", "approval")]
    assert "cause" in "".join(traceback.format_exception(told[0]))
