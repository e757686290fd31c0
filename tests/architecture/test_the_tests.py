"""The tests keep to their own caps."""

from __future__ import annotations

import ast
from collections import Counter

TEST_LINES = 25


def written_in(files):
    """Every test function with its file."""
    return [
        (file, f)
        for file in files
        if file.path.name.startswith("test_")
        for f in file.functions
        if f.name.startswith("test_")
    ]


def test_tests_are_short(test_sources):
    """No test is longer than 25 lines."""
    lengths = {
        f"{file.at(test)} {test.name}": test.end_lineno - test.lineno + 1
        for file, test in written_in(test_sources)
    }
    assert {where: n for where, n in lengths.items() if n > TEST_LINES} == {}


def test_tests_say_what_they_prove(test_sources):
    """Every test has a docstring: the sentence it proves."""
    assert [
        f"{file.at(test)} {test.name}"
        for file, test in written_in(test_sources)
        if not ast.get_docstring(test)
    ] == []


def test_nothing_of_ours_is_mocked(test_sources):
    """No test imports a mocking library: doubles come from capgate.testing."""
    assert [
        file.at(node)
        for file in test_sources
        for node in ast.walk(file.tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        if "mock" in ast.unparse(node).split()[1]
    ] == []


def test_test_files_can_be_told_apart(test_sources):
    """Test files have unique names and no package around them."""
    names = Counter(file.path.name for file in test_sources)
    assert "__init__.py" not in names
    assert [name for name, n in names.items() if n > 1 and name != "conftest.py"] == []
