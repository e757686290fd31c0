"""A question to a policy for unit tests: a real request over a call that nobody makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from capgate.call import Call
from capgate.policies import PolicyRequest
from capgate.testing.actors import fake_actor
from capgate.testing.clock import FakeClock

if TYPE_CHECKING:
    from capgate.approvals import ApprovalRecord
    from capgate.call import Actor, Argument, Clock, InputForm
    from capgate.capability import Capability
    from capgate.policies import Phase


def fake_policy_request(
    capability: Capability[..., Any],
    input: Argument = None,
    *,
    phase: Phase = "invocation",
    actor: Actor | None = None,
    surface: str = "direct",
    deps: Any = None,
    approval: ApprovalRecord | None = None,
    clock: Clock | None = None,
    dry_run: bool = False,
) -> PolicyRequest[Any]:
    """Return the request that a policy would be asked, to hand to `policy.evaluate`.

    Args:
        capability: The handle of the capability.
        input: Validated by its contract, as in a real call; not in the phase `discovery`.
        phase: When it is asked.
        actor: Who calls; `fake_actor()` when None.
        surface: Where the call comes from.
        deps: What the policy sees as `request.deps`.
        approval: The approval the call runs under.
        clock: What `request.now` reads; a `FakeClock` when None.
        dry_run: Whether this is asked under `explain`.

    Raises:
        ContractViolation: The input breaks the contract.
    """
    definition = capability.definition
    call = Call(capability_id=capability.id, surface=surface, actor=actor or fake_actor())
    call.execution_id = call.correlation_id = "exe_test"
    call.deps, call.approval, call.dry_run = deps, approval, dry_run
    call.view, call.form = definition.view(), cast("InputForm", definition.contract)
    if phase != "discovery":
        call.value = definition.contract.validate_input(input)
        call.validated = True
    return PolicyRequest(call, phase, clock or FakeClock(), call.view)
