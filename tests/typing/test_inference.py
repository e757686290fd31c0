"""mypy --strict and pyright strict agree with what the signatures promise, line by line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SAMPLES = sorted(path.name for path in HERE.glob("*.py") if not path.name.startswith("test_"))
LINE = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)$")


def marked(name):
    """Return the lines of a sample that are marked as refused."""
    lines = (HERE / name).read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}


def run(*command):
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout


@pytest.fixture(scope="session")
def found_by_mypy():
    """The errors that mypy finds in all samples, by file."""
    paths = [str(HERE / name) for name in SAMPLES]
    out = run("mypy", "--strict", "--no-error-summary", "--hide-error-context", *paths)
    found = {name: {} for name in SAMPLES}
    for line in out.splitlines():
        match = LINE.match(line)
        if match:
            found.setdefault(Path(match["file"]).name, {})[int(match["line"])] = match["text"]
    return found


@pytest.fixture(scope="session")
def found_by_pyright():
    """The errors that pyright finds in all samples, by file; its settings stand beside them."""
    out = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable, "-p", HERE))
    assert out["summary"]["filesAnalyzed"] == len(SAMPLES)
    found = {name: {} for name in SAMPLES}
    for each in out["generalDiagnostics"]:
        if each["severity"] == "error":
            line = each["range"]["start"]["line"] + 1
            found[Path(each["file"]).name][line] = each["message"]
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_mypy_refuses_exactly_what_is_marked(name, found_by_mypy):
    """Mypy --strict finds an error on each marked line and on no other."""
    wrong = {line: text for line, text in found_by_mypy[name].items() if line not in marked(name)}
    assert (wrong, marked(name) - found_by_mypy[name].keys()) == ({}, set())


@pytest.mark.parametrize("name", SAMPLES)
def test_pyright_refuses_exactly_what_is_marked(name, found_by_pyright):
    """Pyright strict finds an error on each marked line and on no other."""
    found = found_by_pyright[name]
    wrong = {line: text for line, text in found.items() if line not in marked(name)}
    assert (wrong, marked(name) - found.keys()) == ({}, set())


def test_there_are_samples():
    """Samples of both kinds exist: none is lost by a rename."""
    assert [name for name in SAMPLES if name.startswith("accepted_")]
    assert len(marked("refused.py")) > 40
