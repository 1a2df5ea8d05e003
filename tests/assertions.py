"""A pytest plugin that rewrites assertions faster. In a fresh clone, pytest rewrites those of 670 modules.

For each assertion pytest makes about 140 syntax nodes, some of which are in several places. It gave each of
them a line number at each of its places, which took half of the time of rewriting.
"""

import ast
from typing import Any

import pytest
from _pytest.assertion import rewrite


def pytest_configure() -> None:
    usual = rewrite.AssertionRewriter.visit_Assert

    def visit_assert(rewriter: Any, assertion: ast.Assert) -> list[ast.stmt]:
        statements = usual(rewriter, assertion)
        _locate(statements, assertion)
        return statements

    patch = pytest.MonkeyPatch()
    patch.setattr(rewrite.AssertionRewriter, "visit_Assert", visit_assert)
    patch.setattr(rewrite, "traverse_node", lambda _: ())  # whose nodes pytest gives line numbers


def _locate(statements: list[ast.stmt], assertion: ast.Assert) -> None:
    """Gives nodes without a line number that of their assertion."""
    place = assertion.lineno, assertion.col_offset, assertion.end_lineno, assertion.end_col_offset
    nodes: list[Any] = list(statements)
    seen = set[int]()
    while nodes:
        node = nodes.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if getattr(node, "lineno", None) is None:
            node.lineno, node.col_offset, node.end_lineno, node.end_col_offset = place
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                nodes += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and value._attributes:  # others have no line number
                nodes.append(value)
