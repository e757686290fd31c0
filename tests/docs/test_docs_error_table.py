"""The documented table of error codes is the one in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from capgate.errors import TABLE, ErrorCode

PAGE = Path(__file__).parents[2] / "docs" / "explanations" / "errors.md"
HEADER = "| code | stage | retryable | exposed | category | message | when |"


def documented():
    """The rows of the page: code, then the cells that the code can be compared with."""
    lines = PAGE.read_text("utf-8").splitlines()
    rows = lines[lines.index(HEADER) + 2 :]
    cells = [
        [c.strip().strip("`") for c in row.strip("|").split("|")] for row in rows if "|" in row
    ]
    return {code: tuple(rest[:5]) for code, *rest in cells}


def coded(code):
    """The same cells, from the table that the library uses."""
    rule = TABLE[code]
    yes_no = {True: "yes", False: "no"}
    return (
        rule.stage.value,
        yes_no[rule.retryable],
        yes_no[rule.exposed],
        rule.category.value,
        rule.message,
    )


def test_every_code_has_a_rule():
    """The table in the code covers every error code."""
    assert list(TABLE) == list(ErrorCode)


def test_the_page_and_the_code_name_the_same_codes():
    """The page lists every code, in the code's order, and none that does not exist."""
    assert list(documented()) == [code.value for code in ErrorCode]


@pytest.mark.parametrize("code", ErrorCode)
def test_a_row_says_what_the_code_does(code):
    """A row's stage, flags, category and message are those of the code."""
    assert documented()[code.value] == coded(code)


def test_messages_are_constant():
    """No public message has a place to fill in."""
    assert [rule.message for rule in TABLE.values() if re.search(r"[{}%<>]", rule.message)] == []
