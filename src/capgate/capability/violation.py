"""The one way a value is refused by its contract. How issues are worded lives next door."""

from __future__ import annotations

from typing import Final, TypedDict

MAX_ISSUES: Final = 100


class ContractIssue(TypedDict):
    """One thing that is wrong with a value: where, and which rule it breaks."""

    path: str
    message: str


class ContractViolation(Exception):
    """A value breaks its contract or has no JSON form.

    Args:
        issues: Written by capgate: paths and rules, never a value, a `repr` or a foreign text.
            At most 100 are kept. What was raised underneath is the private `__cause__`.
    """

    def __init__(self, issues: list[ContractIssue]) -> None:
        super().__init__("the value breaks its contract")
        self.issues: list[ContractIssue] = issues[:MAX_ISSUES]


def violation(message: str, path: str = "") -> ContractViolation:
    """Return a violation with one issue."""
    return ContractViolation([{"path": path, "message": message}])
