"""The package's own source, read once and parsed: what the architecture tests look at."""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "capgate"


@dataclass(frozen=True, repr=False)
class Source:
    """One Python file: where it is, its text and its tree."""

    path: Path
    text: str
    tree: ast.Module

    def __repr__(self) -> str:
        return self.where  # a failing test prints what it was given

    @property
    def where(self) -> str:
        """The path as a reader would type it."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def room(self) -> str:
        """The package under capgate that the file belongs to; empty at the root."""
        inside = self.path.relative_to(PACKAGE).parts
        return inside[0] if len(inside) > 1 else ""

    @property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function and method, nested ones included."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in ast.walk(self.tree) if isinstance(node, kinds)]

    @property
    def comments(self) -> list[tuple[int, str]]:
        """Each comment with its line."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return [(t.start[0], t.string) for t in tokens if t.type == tokenize.COMMENT]

    def at(self, node: ast.AST) -> str:
        """Name a place, so that a failure can be clicked."""
        return f"{self.where}:{getattr(node, 'lineno', 1)}"


def _read(folder: Path) -> list[Source]:
    paths = sorted(folder.rglob("*.py"))
    return [Source(p, text := p.read_text("utf-8"), ast.parse(text)) for p in paths]


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """Every file of the package."""
    return _read(PACKAGE)


@pytest.fixture(scope="session")
def test_sources() -> list[Source]:
    """Every file under tests/."""
    return _read(ROOT / "tests")


@pytest.fixture(scope="session")
def pyproject() -> dict[str, Any]:
    """The project file, as data."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how dense the comments are: a habit to watch, not a cap."""
    files = _read(PACKAGE)
    comments = sum(len(file.comments) for file in files)
    lines = sum(bool(line.strip()) for file in files for line in file.text.splitlines())
    density = 100 * comments / max(lines, 1)
    terminalreporter.write_line(f"comments: {density:.1f} in 100 lines of src (habit: 4 to 12)")
