"""Every python block of the README and the docs runs, in the order a reader meets it."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import types
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w.{}-]*)[^\n`]*\n"
    r"(?P<body>.*?)^(?P=indent)(?P=ticks)\s*$",
    re.DOTALL | re.MULTILINE,
)
OPT_OUT = re.compile(r"<!-- not run: \S.+? -->\s*\Z")
SPELLINGS = {"py", "python3", "{.python}", "{python}"}


@dataclass(frozen=True)
class Block:
    """One fenced block: where it starts, its language and its code."""

    line: int
    language: str
    code: str
    excused: bool


def blocks(text):
    """The fenced blocks of a page, in order."""
    return [
        Block(
            line=text.count("\n", 0, fence.start("body")),
            language=fence["language"],
            code=textwrap.dedent(fence["body"]),
            excused=bool(OPT_OUT.search(text, 0, fence.start())),
        )
        for fence in FENCE.finditer(text)
    ]


def execute(block, page, namespace):
    """Run one block; what it awaits at its top level runs in an event loop of its own."""
    # Padded, so that a traceback points at the line of the page.
    padded = "\n" * block.line + block.code
    code = compile(padded, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        anyio.run(types.FunctionType(code, namespace))
    else:
        exec(code, namespace)


def run_new_tests(namespace, known):
    """Run the tests that a block defined, when they ask for nothing."""
    for name, value in list(namespace.items()):
        if name.startswith("test_") and value is not known.get(name):
            if inspect.signature(value).parameters:
                continue
            anyio.run(value) if inspect.iscoroutinefunction(value) else value()


@pytest.fixture
def module(request):
    """A module that a page's blocks share: what they define can be found by name."""
    made = types.ModuleType(re.sub(r"\W", "_", request.node.name))
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(page, module, monkeypatch, tmp_path):
    """A page's blocks run one after the other, sharing their names."""
    monkeypatch.chdir(tmp_path)  # what a block writes goes nowhere else
    monkeypatch.syspath_prepend(str(ROOT))  # the pages import the examples
    for block in blocks(page.read_text("utf-8")):
        if block.language == "python" and not block.excused:
            known = dict(vars(module))
            execute(block, page, vars(module))
            run_new_tests(vars(module), known)


def test_every_block_says_its_language_in_one_way():
    """Code cannot dodge the tests by another spelling of python, or by naming no language."""
    assert [
        f"{page.relative_to(ROOT)}:{block.line}"
        for page in PAGES
        for block in blocks(page.read_text("utf-8"))
        if not block.language or block.language in SPELLINGS
    ] == []


def test_blocks_are_found_where_they_hide():
    """Indented blocks are found and dedented, and only a reason excuses one."""
    page = (
        "=== tab\n\n    ```python title='a'\n    x = 1\n    ```\n\n"
        "<!-- not run: needs a server -->\n```python\ny\n```\n\n"
        "<!-- not run: -->\n```python\nz\n```\n"
    )
    assert [(b.line, b.code, b.excused) for b in blocks(page)] == [
        (3, "x = 1\n", False),
        (8, "y\n", True),
        (13, "z\n", False),
    ]
