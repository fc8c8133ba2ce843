"""Floats made of sizes as Python writes them, for operators that run as they are."""

from __future__ import annotations

from collections.abc import Callable

from inductor.errors import UnsupportedGraph
from inductor.ir.expr import Apply, Const, Expr, IndexValue
from inductor.ir.index import Index

_INFIX = {"add": "+", "mul": "*", "div": "/", "pow": "**"}


def double_text(expr: Expr, index_text: Callable[[Index], str], square_root: Callable[[], str]) -> str:
    """``square_root`` gives the name under which the text finds that function."""

    def text(part: Expr) -> str:
        if isinstance(part, Const):
            return f"float('{part.value}')" if part.value in (float("inf"), float("-inf")) else repr(part.value)
        if isinstance(part, IndexValue):
            return f"({index_text(part.index)})"
        if isinstance(part, Apply) and part.op in _INFIX:
            return f"({text(part.args[0])} {_INFIX[part.op]} {text(part.args[1])})"
        if isinstance(part, Apply) and part.op in ("cast", "sqrt"):
            return f"{'float' if part.op == 'cast' else square_root()}({text(part.args[0])})"
        raise UnsupportedGraph(f"a float known only at run time: {part}")

    return text(expr)
