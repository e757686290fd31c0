"""The ordered stages between a claim and an outcome. The door of this room."""

from __future__ import annotations

from capgate.pipeline.approval import Approval
from capgate.pipeline.authentication import Authentication
from capgate.pipeline.authorization import Authorization
from capgate.pipeline.binding import plan_for, plan_refusal
from capgate.pipeline.discovery import Discovery, refuse_as
from capgate.pipeline.enrolled import Enrolled
from capgate.pipeline.evidence import Evidence, frozen
from capgate.pipeline.execution import Execution
from capgate.pipeline.handler_start import AtomicStart
from capgate.pipeline.identity import authenticated, capture_claimed, identify
from capgate.pipeline.input_validation import InputValidation
from capgate.pipeline.output_validation import OutputValidation
from capgate.pipeline.pipeline import Pipeline
from capgate.pipeline.plan import Plan
from capgate.pipeline.policy import Policy
from capgate.pipeline.retrying import full_jitter
from capgate.pipeline.runtime import Authenticate, Runtime
from capgate.pipeline.slots import Slots
from capgate.pipeline.stage import CoreStage, CoreStep, Skip, Stage, Step

__all__ = [
    "Approval",
    # For the engine
    "AtomicStart",
    "Authenticate",
    "Authentication",
    "Authorization",
    "CoreStage",
    "CoreStep",
    # The default stages, in order
    "Discovery",
    "Enrolled",
    "Evidence",
    "Execution",
    "InputValidation",
    "OutputValidation",
    # Building a pipeline
    "Pipeline",
    "Plan",
    "Policy",
    "Runtime",
    "Skip",
    "Slots",
    "Stage",
    "Step",
    "authenticated",
    "capture_claimed",
    "frozen",
    "full_jitter",
    "identify",
    "plan_for",
    "plan_refusal",
    "refuse_as",
]
