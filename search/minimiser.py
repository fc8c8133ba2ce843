"""Makes a text small while the same kind of difference stays: statements deleted, bodies lifted, values simplified."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

Still = Callable[[str], bool]
"""True for a text that still shows what the first one showed."""


def minimise(text: str, still: Still, tries: int = 400) -> str:
    """The smallest text found in so many tries, by one simplification after another, over and over until none helps."""
    best, left, seen = ast.unparse(ast.parse(text)), tries, set[str]()
    if not still(best):
        return text
    smaller = True
    while smaller and left > 0:
        smaller = False
        position = 0
        while left > 0:
            candidate = _candidate(best, position)
            if candidate is None:
                break
            # Not a try: nothing is run for it.
            if candidate == best or candidate in seen or not _compiles(candidate):
                position += 1
                continue
            seen.add(candidate)
            left -= 1
            if still(candidate):
                # The same position again: what stood behind what is gone has moved there.
                best, smaller = candidate, True
            else:
                position += 1
    return best


def _compiles(text: str) -> bool:
    try:
        compile(text, "<candidate>", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _candidate(text: str, position: int) -> str | None:
    """The text with its ``position``-th simplification made, counted from the whole to the parts; None behind the
    last."""
    tree = ast.parse(text)
    # Changes are made in place, each in a tree of its own.
    for index, change in enumerate(_changes(tree)):
        if index == position:
            change()
            ast.fix_missing_locations(tree)
            try:
                return ast.unparse(tree)
            except (ValueError, AttributeError):
                return text
    return None


def _changes(tree: ast.Module) -> Iterator[Callable[[], None]]:
    """The simplifications of a tree, large ones first: whole statements from the last to the first, then what stands
    within them."""
    bodies = [
        (node, name)
        for node in ast.walk(tree)
        for name in ("body", "orelse", "finalbody")
        if isinstance(getattr(node, name, None), list)
    ]
    for node, name in bodies:
        statements = getattr(node, name)
        size = len(statements) // 2
        # Halves and quarters first, as most statements have nothing to do with the difference.
        while size > 1 and not isinstance(node, ast.Module):
            for index in reversed(range(0, len(statements) - size + 1, size)):
                yield _without(node, name, index, size)
            size //= 2
        for index in reversed(range(len(statements))):
            # Functions at the top stay: the program consists of them.
            if isinstance(statements[index], ast.FunctionDef) and isinstance(node, ast.Module):
                continue
            if isinstance(statements[index], ast.Pass):
                continue
            yield _without(node, name, index)
            if isinstance(statements[index], (ast.If, ast.For, ast.While, ast.With, ast.Try)):
                yield _lifted(node, name, index)
    # Arguments are looked up by name in what ``make`` returns: fewer are fine.
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name == "program":
            for index in range(len(function.args.args)):
                yield _without_argument(function, index)
    yield from _within(tree)


def _without(node: ast.AST, name: str, index: int, count: int = 1) -> Callable[[], None]:
    """A change that deletes statements, and leaves no body empty."""

    def change() -> None:
        statements = getattr(node, name)
        del statements[index : index + count]
        if not statements and name == "body":
            statements.append(ast.Pass())

    return change


def _lifted(node: ast.AST, name: str, index: int) -> Callable[[], None]:
    """A change that puts a statement's body in its place."""

    def change() -> None:
        statements = getattr(node, name)
        statements[index : index + 1] = statements[index].body

    return change


def _without_argument(function: ast.FunctionDef, index: int) -> Callable[[], None]:
    def change() -> None:
        del function.args.args[index]

    return change


def _within(tree: ast.Module) -> Iterator[Callable[[], None]]:
    """The simplifications of expressions: an operand for an operation, an argument for a call, fewer items, simple
    names."""
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, ast.expr):
                for part in _parts(value):
                    yield _replaced(parent, field, part)
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                for index, item in enumerate(value):
                    # The last item stays: ``_parts`` has it alone in place of the whole.
                    if isinstance(parent, (ast.List, ast.Tuple)) and len(value) > 1:
                        yield _item_gone(value, index)
                    for part in _parts(item):
                        yield _item_replaced(value, index, part)
        if isinstance(parent, ast.Call):
            for index in range(len(parent.keywords)):
                yield _item_gone(parent.keywords, index)


def _parts(value: ast.expr) -> list[ast.expr]:
    """The expressions that may stand for a whole one."""
    match value:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=owner), args=args):
            return [*args, owner]
        case ast.Call(args=args):
            return list(args)
        case ast.Subscript(value=owner) | ast.Attribute(value=owner):
            return [owner]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.Compare(left=left):
            return [ast.Constant(True), ast.Constant(False), left]
        case ast.Tuple(elts=[only]) | ast.List(elts=[only]):
            return [only]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Dict(values=[*values]):
            return list(values)
        # Not of 1.0 and 2.0: simplifying would go round in circles.
        case ast.Constant(value=float() as number) if number not in (1.0, 2.0):
            return [ast.Constant(1.0), ast.Constant(2.0)]
    return []


def _replaced(parent: ast.AST, field: str, part: ast.expr) -> Callable[[], None]:
    return lambda: setattr(parent, field, copy.deepcopy(part))


def _item_gone(items: list[ast.expr] | list[ast.keyword], index: int) -> Callable[[], None]:
    def change() -> None:
        del items[index]

    return change


def _item_replaced(items: list[ast.expr], index: int, part: ast.expr) -> Callable[[], None]:
    def change() -> None:
        items[index] = copy.deepcopy(part)

    return change
