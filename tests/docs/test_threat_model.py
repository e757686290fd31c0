"""Every security invariant of the threat model is held by tests that exist and say so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "explanations" / "threat-model.md"
INVARIANTS = [f"SI-{n}" for n in range(1, 13)]
TEST = re.compile(r"`(tests/[^`]+::[^`]+)`")


def sections():
    """The text under each heading `## SI-n: …`, by invariant."""
    parts = re.split(r"^## (SI-\d+)\b", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_has_every_invariant_in_order():
    """SI-1 to SI-12, none missing, none twice."""
    assert list(sections()) == INVARIANTS


@pytest.mark.parametrize("invariant", INVARIANTS)
def test_an_invariant_names_its_tests(invariant, docstring_of):
    """At least one test is named; each exists and is tagged with the invariant."""
    named = TEST.findall(sections()[invariant])
    assert named
    tag = re.compile(rf"\b{invariant}\b")
    assert [name for name in named if not tag.search(docstring_of(name) or "")] == []
