"""A program without some of its statements, to tell whether those are the cause of a difference.

Must not know: what differs, what is documented.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

Chosen = Callable[[str], bool]
"""A choice of statements, by their text."""

_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete)


def matching(pattern: str) -> Chosen:
    expression = re.compile(pattern)
    return lambda statement: bool(expression.search(statement))


def without(text: str, function: str, chosen: Chosen) -> str | None:
    """The text without the chosen statements of a function; none where there is none."""
    tree = ast.parse(text)
    places = [place for place in _places(tree, function) if chosen(ast.unparse(place[0][place[1]]))]
    for statements, index in places:
        # Not deleted: a body must not become empty, and the other places stay what they are.
        statements[index] = ast.Pass()
    return _text(tree) if places else None


def _text(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))


def _body(tree: ast.Module, function: str) -> list[ast.stmt]:
    return next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function).body


def _places(tree: ast.Module, function: str) -> Iterator[tuple[list[ast.stmt], int]]:
    """The places of the simple statements of a function, those within others too."""
    pending = [_body(tree, function)]
    while pending:
        statements = pending.pop(0)
        for index, statement in enumerate(statements):
            if isinstance(statement, _SIMPLE):
                yield statements, index
            for name in ("body", "orelse", "finalbody", "handlers"):
                inner = getattr(statement, name, [])
                pending += [each.body for each in inner] if name == "handlers" else [inner] if inner else []
