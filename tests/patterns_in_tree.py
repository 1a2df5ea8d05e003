"""Every regular expression of the tree, found in its source, with the ways in which it is used."""

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
WAYS = ("search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split")
LOCALS: dict[str, Any] = {
    "max_length": 128,
    "marks": "\u0300-\u036f",
    "typed": "typed",
    "cookie_name": "id",
    "name": "a_b",
}
"""A value for each local variable that is part of a pattern."""
EXEMPT = {("historyapp/demo/tools.py", "pattern")}
"""The demo's grep: it searches files that the demo wrote for patterns that its own script holds."""


class Use(NamedTuple):
    """A pattern, where it is, and a way in which it is used."""

    place: str
    pattern: "re.Pattern[Any]"
    way: str


@cache
def uses() -> list[Use]:
    """Each pattern with each way in which the tree uses it, or with all where the source does not show it."""
    trees = {path: ast.parse(path.read_text()) for path in modules_with_patterns()}
    ways = {path: _ways_by_name(tree) for path, tree in trees.items()}
    uses_by_pattern: dict[tuple[str, str, int], Use] = {}
    for path, tree in trees.items():
        names = dict(_names_by_call(tree))
        for call in _calls(tree):
            place = str(path.relative_to(ROOT))
            if (place, ast.unparse(call.args[0])) in EXEMPT:
                continue
            pattern, called = _compiled(path, call), _attribute(call)
            used = {called} if called in WAYS else _used(names.get(id(call), ""), ways, path)
            for way in used:
                use = Use(f"{place}:{call.lineno}", pattern, way)
                uses_by_pattern.setdefault((way, str(pattern.pattern), pattern.flags), use)
    return list(uses_by_pattern.values())


def modules_with_patterns() -> list[Path]:
    paths = [path for folder in ("historyapp", "dashboard") for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in paths if "migrations" not in path.parts and "import re\n" in path.read_text()]


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls of functions of ``re`` that take a pattern."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            module, function = _name(node.func.value), node.func.attr
            if module == "re" and function in ("compile", *WAYS):
                yield node


def _ways_by_name(tree: ast.AST) -> dict[str, set[str]]:
    """For each name or attribute the functions of a pattern that are called on it."""
    ways = defaultdict[str, set[str]](set)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in WAYS and _name(node.value) != "re":
            ways[_name(node.value)].add(node.attr)
        elif isinstance(node, ast.Call) and _name(node.func) == "enclosed":
            for argument in node.args:  # it searches with the patterns that it is given
                ways[_name(argument)].add("search")
    return ways


def _names_by_call(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The name that each value is assigned to, by the ``id`` of the value's node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                yield from zip(map(id, value.elts), map(_name, target.elts), strict=True)
            yield id(value), _name(target)


def _used(name: str, ways: dict[Path, dict[str, set[str]]], path: Path) -> set[str]:
    """How a pattern is used: under its name, or, as a part of a list, in all ways of its module."""
    modules = ways.values() if name and not name.startswith("_") else [ways[path]]
    used = {way for module in modules for way in module.get(name, ())} if name else set()
    every = {way for ways_of_module in ways[path].values() for way in ways_of_module}
    return used or every or set(WAYS)


def _compiled(path: Path, call: ast.Call) -> "re.Pattern[Any]":
    """The pattern of a call, computed where the module computes it.

    Raises:
        NameError: when it depends on a local variable that ``LOCALS`` lacks.
    """
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    known = LOCALS | vars(module)
    flags = [argument for argument in call.args[1:] if "re." in ast.unparse(argument)]
    flags += [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    source = eval(ast.unparse(call.args[0]), known)
    return re.compile(source, eval(ast.unparse(flags[0]), known) if flags else 0)


def _attribute(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _name(node: ast.AST) -> str:
    """The last part of a name, such as ``_legal`` of ``self._legal``."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
