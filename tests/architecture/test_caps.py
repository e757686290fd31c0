"""The sizes and habits of the package, held by reading its syntax trees."""

from __future__ import annotations

import ast
import re

FILE_LINES = 300
FUNCTION_LINES = 40
IGNORES = 10
# Surfaces may import their optional dependency where they use it.
SURFACES = {"mcp", "http", "tools", "cli", "otel", "stores"}
IGNORE = re.compile(r"#\s*(type:\s*ignore|pyright:|mypy:|ruff:|noqa|pragma:\s*no)")
# A code in brackets or after a colon, then a reason in words.
REASONED = re.compile(r"(\[[\w, -]+\]|noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*)\W+\w+.* \w+")


def length(node):
    return node.end_lineno - node.lineno + 1


def test_files_stay_within_their_cap(sources):
    """No file of the package is longer than 300 lines."""
    lengths = {file.where: file.text.count("\n") for file in sources}
    assert {where: n for where, n in lengths.items() if n > FILE_LINES} == {}


def test_functions_stay_within_their_cap(sources):
    """No function of the package is longer than 40 lines."""
    lengths = {f"{file.at(f)} {f.name}": length(f) for file in sources for f in file.functions}
    assert {where: n for where, n in lengths.items() if n > FUNCTION_LINES} == {}


def test_imports_stand_at_the_top(sources):
    """No function of the core imports anything."""
    assert [
        file.at(node)
        for file in sources
        if file.room not in SURFACES
        for function in file.functions
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ] == []


def test_annotations_are_never_evaluated_at_import(sources):
    """Every module with code postpones its annotations."""
    future = "from __future__ import annotations"
    assert [
        file.where
        for file in sources
        if file.path.name != "__init__.py" and future not in file.text.splitlines()
    ] == []


def test_ignores_are_few(sources):
    """The whole package switches a checker off at most ten times."""
    found = [
        f"{file.where}:{line} {text}"
        for file in sources
        for line, text in file.comments
        if IGNORE.match(text)
    ]
    assert len(found) <= IGNORES, "\n".join(found)


def test_every_ignore_says_what_and_why(sources):
    """Whoever switches a checker off names its code and gives a reason."""
    assert [
        f"{file.where}:{line} {text}"
        for file in sources
        for line, text in file.comments
        if IGNORE.match(text) and not REASONED.search(text)
    ] == []


def is_broad(node):
    """Whether an expression names Exception or BaseException, alone or in a tuple."""
    names = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(isinstance(n, ast.Name) and n.id in {"Exception", "BaseException"} for n in names)


def swallows(node):
    """Whether a node catches everything and does nothing with it."""
    if isinstance(node, ast.ExceptHandler):
        idle = all(
            isinstance(line, (ast.Pass, ast.Continue))
            or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            for line in node.body
        )
        return idle and (node.type is None or is_broad(node.type))
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).endswith("suppress") and any(map(is_broad, node.args))
    return False


def test_nothing_is_swallowed(sources):
    """No handler catches everything and passes on in silence."""
    assert [
        file.at(node) for file in sources for node in ast.walk(file.tree) if swallows(node)
    ] == []


def test_asyncio_is_named_in_one_list(pyproject):
    """The linter and the import contract let the same modules import asyncio."""
    lint = pyproject["tool"]["ruff"]["lint"]["per-file-ignores"]
    contracts = pyproject["tool"]["importlinter"]["contracts"]
    banned = next(c for c in contracts if c.get("forbidden_modules") == ["asyncio"])
    allowed = {i.split(" -> ")[0] for i in banned["ignore_imports"]}
    assert allowed == {
        path.removeprefix("src/").removesuffix(".py").replace("/", ".")
        for path, codes in lint.items()
        if path.startswith("src/") and "TID251" in codes
    }
