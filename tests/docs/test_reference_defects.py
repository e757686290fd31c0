"""The page on the references' defects misses none of them, and each test it names exists."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanations" / "reference-defects.md"
# The numbers of reference A's lines that are marked as defects; reference B has none.
CORE = {
    *(17, 18, 19, 22, 27, 28, 38, 59, 70, 75, 76, 83, 87, 95, 96),
    *(106, 121, 123, 125, 126, 127, 128, 129, 130, 147, 155, 156, 157),
    *(174, 177, 178, 184, 206, 207, 208, 234, 235, 253, 257, 258, 297),
}
LATER = {268, 269, 270, 274, 275, 303, 320}
ROW = re.compile(r"^\| A (\d+) \|(.*)\|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[^`]+)`")


def rows():
    """Each row of the tables: its number and its text."""
    return [(int(number), text) for number, text in ROW.findall(PAGE.read_text("utf-8"))]


def says(docstring, number):
    """Whether a docstring names that defect, alone or in a list of numbers."""
    named = re.findall(r"\bA ((?:\d+(?:, | and |,)?)+)", docstring)
    return str(number) in re.findall(r"\d+", " ".join(named))


def test_the_page_lists_every_defect_once():
    """Each number stands in one row, in order: first the core's, then those of later surfaces."""
    assert [number for number, _ in rows()] == [*sorted(CORE), *sorted(LATER)]


def test_each_defect_of_the_core_names_its_tests():
    """No row of the first table is without a test; the second table names none."""
    assert {number for number, text in rows() if TEST.search(text)} == CORE


def test_each_named_test_exists_and_says_what_it_is_about(docstring_of):
    """A named test's docstring names the same defect."""
    wrong = [
        (number, name)
        for number, text in rows()
        for name in TEST.findall(text)
        if not says(docstring_of(name) or "", number)
    ]
    assert wrong == []
