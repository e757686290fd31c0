"""What things are called, and through which door one room reaches another."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import capgate

FORBIDDEN = {"manager", "service", "helper", "util", "utility"}
PACKAGE = Path(capgate.__file__).parent
DOORS = ["capgate", *sorted(f"capgate.{p.parent.name}" for p in PACKAGE.glob("*/__init__.py"))]


def words(name):
    """The words of a snake_case or CamelCase name, singular, lower case."""
    found = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {word.lower().removesuffix("s") for word in found}


def test_no_name_says_nothing(sources):
    """No module and no class is a manager, a service, a helper or a utility."""
    classes = [
        (file.at(node), node.name)
        for file in sources
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ClassDef)
    ]
    modules = [(file.where, file.path.relative_to(PACKAGE).as_posix()) for file in sources]
    assert [where for where, name in classes + modules if words(name) & FORBIDDEN] == []


def imported(file):
    """The modules a file imports at run time or for its types, with the line."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node, node.module
        elif isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)


def test_rooms_are_entered_by_their_door(sources):
    """A room imports another room's package, never a module inside it."""
    assert [
        f"{file.at(node)} {name}"
        for file in sources
        for node, name in imported(file)
        if name.startswith("capgate.") and name.count(".") > 1
        if name.split(".")[1] != file.room
    ] == []


def test_nobody_leaves_a_room_to_enter_it_again(sources):
    """Inside a room siblings are imported directly, never through a door above them."""
    assert [
        f"{file.at(node)} {name}"
        for file in sources
        if file.path.name != "__init__.py" and file.room
        for node, name in imported(file)
        if name in {"capgate", f"capgate.{file.room}"}
    ] == []


@pytest.mark.parametrize("door", DOORS)
def test_a_door_says_what_it_opens(door):
    """Every package lists its public names, each once, and has every one of them."""
    module = importlib.import_module(door)
    names = list(module.__all__)
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(names) == len(set(names))


def undocumented(value):
    """Whether a class or function has no docstring of its own."""
    if inspect.isclass(value):
        text = vars(value).get("__doc__") or ""
        # Dataclasses and named tuples write their signature where a docstring should be.
        return not text or text.startswith(f"{value.__name__}(")
    return inspect.isfunction(value) and not value.__doc__


@pytest.mark.parametrize("door", DOORS)
def test_public_names_are_documented(door):
    """Every public class and function has a docstring of its own."""
    module = importlib.import_module(door)
    assert [name for name in module.__all__ if undocumented(getattr(module, name))] == []
