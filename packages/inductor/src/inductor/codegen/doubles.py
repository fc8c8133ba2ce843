"""Floats made of sizes as Python writes them, for operators that run as they are."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

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
        if isinstance(part, Apply) and part.op == "bitcast":
            return f"double_of({text(part.args[0])})"
        raise UnsupportedGraph(f"a float known only at run time: {part}")

    return text(expr)


def bits_of(number: float) -> int:
    """A float as the integer of the same bits, which is how it comes to a kernel."""
    bits: int = _LONG.unpack(_DOUBLE.pack(number))[0]
    return bits


def double_of(bits: int) -> float:
    number: float = _DOUBLE.unpack(_LONG.pack(bits))[0]
    return number


_DOUBLE, _LONG = Struct("<d"), Struct("<q")
