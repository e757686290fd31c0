"""The table of codes, row by row, as the specification has it."""

from __future__ import annotations

import pytest

from capgate.errors import (
    GENERIC_MESSAGE,
    TABLE,
    CapabilityError,
    Effect,
    ErrorCategory,
    ErrorCode,
    FailureStage,
    public_error,
)

# code | stage | retryable | exposed | category; a varying cell has its default here.
ROWS = """
CAPABILITY_NOT_FOUND          | discovery         | no  | yes | CAPABILITY_NOT_FOUND
INPUT_INVALID                 | input-validation  | no  | yes | INPUT_INVALID
UNAUTHENTICATED               | authentication    | no  | yes | UNAUTHENTICATED
FORBIDDEN                     | authorization     | no  | yes | FORBIDDEN
POLICY_DENIED                 | policy            | no  | yes | FORBIDDEN
POLICY_FAILED                 | policy            | no  | no  | EXECUTION_FAILED
APPROVAL_REQUIRED             | approval          | no  | yes | FORBIDDEN
APPROVAL_PENDING              | approval          | yes | yes | FORBIDDEN
APPROVAL_REJECTED             | approval          | no  | yes | FORBIDDEN
APPROVAL_EXPIRED              | approval          | no  | yes | FORBIDDEN
APPROVAL_CONSUMED             | approval          | no  | yes | FORBIDDEN
APPROVAL_CANCELLED            | approval          | no  | yes | FORBIDDEN
APPROVAL_NOT_PENDING          | approval          | no  | yes | FORBIDDEN
APPROVAL_INPUT_MISMATCH       | approval          | no  | no  | EXECUTION_FAILED
APPROVAL_SELF_APPROVAL        | approval          | no  | yes | FORBIDDEN
APPROVAL_UNSERIALIZABLE_INPUT | approval          | no  | no  | EXECUTION_FAILED
APPROVAL_NOT_FOUND            | approval          | no  | yes | CAPABILITY_NOT_FOUND
EXECUTION_FAILED              | execution         | no  | no  | EXECUTION_FAILED
OUTPUT_INVALID                | output-validation | no  | no  | OUTPUT_INVALID
TIMEOUT                       | timeout           | yes | yes | CANCELLED
CANCELLED                     | cancellation      | no  | yes | CANCELLED
APPROVAL_UNAVAILABLE          | approval          | yes | no  | EXECUTION_FAILED
IDEMPOTENCY_CONFLICT          | policy            | no  | yes | INPUT_INVALID
AUDIT_UNAVAILABLE             | execution         | yes | no  | EXECUTION_FAILED
RATE_LIMITED                  | policy            | yes | yes | FORBIDDEN
ADAPTER_ERROR                 | adapter           | no  | no  | EXECUTION_FAILED
INTERNAL_ERROR                | execution         | no  | no  | EXECUTION_FAILED
"""
TABLE_ROWS = [[cell.strip() for cell in row.split("|")] for row in ROWS.strip().splitlines()]
by_code = pytest.mark.parametrize("row", TABLE_ROWS, ids=[row[0] for row in TABLE_ROWS])


@by_code
def test_an_error_takes_what_the_table_says(row):
    """An error built from a code alone has the stage, flags and category of its row."""
    code, stage, retryable, exposed, category = row
    error = CapabilityError(code)
    assert error.code is ErrorCode(code)
    assert error.stage is FailureStage(stage)
    assert error.retryable is (retryable == "yes")
    assert error.exposed is (exposed == "yes")
    assert error.category is ErrorCategory(category)


def test_the_table_has_exactly_the_specified_codes():
    """There is one row for each code, in both directions."""
    assert [row[0] for row in TABLE_ROWS] == list(TABLE) == list(ErrorCode)


@by_code
def test_each_code_has_one_constant_public_message(row):
    """A message is one short sentence without interpolation, generic for concealed codes."""
    message = TABLE[ErrorCode(row[0])].message
    assert message.endswith(".")
    assert len(message) < 60
    assert not set("{}%") & set(message)
    assert (message == GENERIC_MESSAGE) is (row[3] == "no")


@by_code
def test_only_an_exposed_code_shows_itself(row):
    """SI-9: an exposed code leaves as itself, any other as the generic shape."""
    code, _, retryable, exposed, _ = row
    generic = {"code": "INTERNAL_ERROR", "message": GENERIC_MESSAGE, "retryable": False}
    shown = {"code": code, "message": TABLE[ErrorCode(code)].message}
    expected = {**shown, "retryable": retryable == "yes"} if exposed == "yes" else generic
    assert public_error(CapabilityError(code)) == expected


@pytest.mark.parametrize("enum", [FailureStage, Effect, ErrorCode, ErrorCategory])
def test_a_member_is_named_after_its_value(enum):
    """A member's name is its value in UPPER_SNAKE."""
    assert all(member.name == member.value.upper().replace("-", "_") for member in enum)


def test_stages_and_effects_are_the_specified_ones():
    """The values of stages, effects and categories are fixed."""
    stages = (
        "discovery input-validation authentication authorization policy approval execution"
        " output-validation timeout cancellation adapter"
    )
    assert [stage.value for stage in FailureStage] == stages.split()
    assert [effect.value for effect in Effect] == ["none", "done", "unknown"]
    assert len(ErrorCategory) == 7


def test_the_table_cannot_be_changed():
    """A rule is data that nothing can repurpose at run time."""
    with pytest.raises(TypeError):
        TABLE[ErrorCode.FORBIDDEN] = TABLE[ErrorCode.TIMEOUT]
