"""Makes the reference: one page for each package with a public door, and an index of `capgate`.

Nothing is imported: the doors are read as text, the pages are filled from docstrings.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

PACKAGE = Path(__file__).parents[2] / "src" / "capgate"


def rooms() -> dict[str, str]:
    """Each package that lists public names, with the first sentence of its docstring."""
    found = {}
    for door in sorted(PACKAGE.glob("*/__init__.py")):
        tree = ast.parse(door.read_text("utf-8"))
        if any(
            isinstance(n, ast.Assign) and "__all__" in ast.unparse(n.targets) for n in tree.body
        ):
            found[door.parent.name] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def front_door() -> list[tuple[str, str]]:
    """Each name that `capgate` itself offers, with the package it comes from."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    return sorted(
        (alias.name, node.module)
        for node in imports
        if node.module.startswith("capgate.")
        for alias in node.names
    )


def index() -> str:
    """The first page: what can be imported from `capgate`, and the packages behind it."""
    packages = [f"| [`capgate.{room}`]({room}.md) | {says} |" for room, says in rooms().items()]
    # Optional: a constant that needs no docstring has no place to link to.
    link = '<autoref optional identifier="{1}.{0}"><code>{0}</code></autoref>'
    names = [link.format(*offered) for offered in front_door()]
    return "\n".join(
        [
            "# Reference",
            "",
            "Everything here is written from the docstrings of the code.",
            "",
            "| package | what it holds |",
            "|---|---|",
            *packages,
            "",
            "## Names in `capgate`",
            "",
            ", ".join(names) + ("." if names else ""),
            "",
        ]
    )


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation's empty Reference section."""
    pages = ["reference/index.md", *({f"capgate.{r}": f"reference/{r}.md"} for r in rooms())]
    for entry in config.nav or []:
        if isinstance(entry, dict) and "Reference" in entry:
            entry["Reference"] = pages
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, which exist only while the site is built."""
    files.append(File.generated(config, "reference/index.md", content=index()))
    for room in rooms():
        page = f"# capgate.{room}\n\n::: capgate.{room}\n"
        files.append(File.generated(config, f"reference/{room}.md", content=page))
    return files
