"""The README stays one page, its links lead somewhere, and what it tells to run exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
FIVE_MINUTES = 1000  # words


def six_sentences(page):
    """The numbered list under the heading that README and home page share."""
    return re.findall(r"^\d\. .+$", page.split("## Six sentences to hold in mind")[1], re.MULTILINE)


def test_it_can_be_read_in_five_minutes():
    """One page: at 200 words a minute, not more than five minutes."""
    assert len(README.split()) <= FIVE_MINUTES


@pytest.mark.parametrize("link", re.findall(r"\]\((?!https?:)([^)#]+)", README))
def test_each_link_leads_to_a_file(link):
    """A relative link names a file of the repository."""
    assert (ROOT / link).is_file()


def test_each_make_target_exists():
    """What the README tells to run, the Makefile can."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)(?=[` ]|$)", README)) <= targets


def test_the_six_sentences_are_told_in_one_way():
    """The README and the home page of the docs say the same six sentences."""
    home = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert len(six_sentences(README)) == 6
    assert six_sentences(README) == six_sentences(home)
