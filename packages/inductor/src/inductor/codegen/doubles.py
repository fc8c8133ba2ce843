"""Floats made of sizes in Python's syntax, for the arguments of library calls."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from inductor.errors import UnsupportedGraph
from inductor.ir.expr import Apply, Const, Expr, IndexValue
from inductor.ir.index import Index

_INFIX = {"add": "+", "mul": "*", "pow": "**"}


def double_text(expr: Expr, index_text: Callable[[Index], str], square_root: Callable[[], str]) -> str:
    """The expression as Python; ``square_root`` returns the name of that function in the text."""

    def text(part: Expr) -> str:
        if isinstance(part, Const):
            return f"float('{part.value}')" if part.value in (float("inf"), float("-inf")) else repr(part.value)
        # Python's integers here: exact until the cast to a float, as in the user's own program.
        if isinstance(part, IndexValue):
            return f"({index_text(part.index)})"
        if isinstance(part, Apply) and part.op in _INFIX:
            return f"({text(part.args[0])} {_INFIX[part.op]} {text(part.args[1])})"
        if isinstance(part, Apply) and part.op == "div":
            return f"quotient({text(part.args[0])}, {text(part.args[1])})"
        if isinstance(part, Apply) and part.op in ("cast", "sqrt"):
            return f"{'float' if part.op == 'cast' else square_root()}({text(part.args[0])})"
        if isinstance(part, Apply) and part.op == "bitcast":
            return f"double_of({text(part.args[0])})"
        raise UnsupportedGraph(f"a float known only at run time: {part}")

    return text(expr)


def bits_of(number: float) -> int:
    """The integer with the bits of a float, which is the form in which kernels take one."""
    bits: int = _LONG.unpack(_DOUBLE.pack(number))[0]
    return bits


def quotient(a: float, b: float) -> float:
    """a / b as kernels divide, by zero too: the graph checks what the program divides by where Python would raise."""
    return a / b if b else a * float("inf")


def double_of(bits: int) -> float:
    """The float with these bits."""
    number: float = _DOUBLE.unpack(_LONG.pack(bits))[0]
    return number


_DOUBLE, _LONG = Struct("<d"), Struct("<q")
