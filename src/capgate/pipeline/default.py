"""The pipeline, as one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from capgate.pipeline.approval import Approval
from capgate.pipeline.authentication import Authentication
from capgate.pipeline.authorization import Authorization
from capgate.pipeline.discovery import Discovery
from capgate.pipeline.execution import Execution
from capgate.pipeline.input_validation import InputValidation
from capgate.pipeline.output_validation import OutputValidation
from capgate.pipeline.policy import Policy

if TYPE_CHECKING:
    from capgate.pipeline.stage import CoreStage

DEFAULT_STAGES: Final[tuple[type[CoreStage], ...]] = (
    Discovery,
    InputValidation,
    Authentication,
    Authorization,
    Policy,
    Approval,
    Execution,
    OutputValidation,
)
