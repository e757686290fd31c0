"""What the documentation's tests share: finding a test by the name that a page gives it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@cache
def docstrings(file):
    """The docstring of each test in a file, by name; nothing where there is no such file."""
    path = ROOT / file
    if not path.is_file():
        return {}
    return {
        node.name: ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


@pytest.fixture
def docstring_of():
    """Return a test's docstring for `tests/room/test_file.py::test_name`, None if there is none."""

    def find(name):
        file, _, function = name.partition("::")
        return docstrings(file).get(function)

    return find
