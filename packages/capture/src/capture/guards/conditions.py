"""Conditions on sizes as programs for the engine, which decides them in 64-bit integers.

What the engine has no instruction for stays Python's: the program is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy

from capture.torch_versions import CleanDiv, FloorDiv, Max, Min, Mod, PythonMod

Instruction = tuple[str, int, int]
Program = tuple[Instruction, ...]
Reads = Mapping[sympy.Symbol, Instruction]

_LARGEST = 2**62
_MOST = 24
"""Nested operands must find room on the engine's stack."""

_COMBINED: dict[type, str] = {
    sympy.Add: "add",
    sympy.Mul: "multiply",
    FloorDiv: "divide",
    CleanDiv: "divide",
    Mod: "remainder",
    PythonMod: "remainder",
    Min: "least",
    Max: "greatest",
    sympy.Eq: "equal",
    sympy.Ne: "unequal",
    sympy.Lt: "less",
    sympy.Le: "less or equal",
    sympy.And: "and",
    sympy.Or: "or",
}
# The engine has one direction of each comparison: these are said with their operands exchanged.
_WITH_OPERANDS_SWAPPED: dict[type, str] = {sympy.Gt: "less", sympy.Ge: "less or equal"}


class _NoInstructionError(Exception):
    """The engine cannot decide this."""


def program_of(condition: sympy.Basic, reads: Reads) -> Program | None:
    """The condition as a program for the engine; None where it has no instruction for a part of it.

    ``reads`` says how each symbol's number is read: an instruction, the position of its value, a dimension.
    """
    program: list[Instruction] = []
    try:
        _put(condition, reads, program.append, 0)
    except _NoInstructionError:
        return None
    return tuple(program)


def _put(expression: Any, reads: Reads, put: Callable[[Instruction], None], depth: int) -> None:
    """Appends the instructions that leave the value of the expression on the engine's stack."""
    if expression in reads:
        put(reads[expression])
    elif isinstance(expression, sympy.Integer) and abs(int(expression)) < _LARGEST:
        put(("constant", 0, int(expression)))
    elif expression in (sympy.true, sympy.false):
        put(("constant", 0, int(bool(expression))))
    elif isinstance(expression, sympy.Not):
        _put(expression.args[0], reads, put, depth)
        put(("not", 0, 0))
    # The engine has no powers: a small whole one is a product.
    elif isinstance(expression, sympy.Pow) and expression.exp.is_Integer and 0 < int(expression.exp) <= _MOST:
        _put_all([expression.base] * int(expression.exp), "multiply", reads, put, depth)
    elif type(expression) in _WITH_OPERANDS_SWAPPED:
        _put_all(reversed(expression.args), _WITH_OPERANDS_SWAPPED[type(expression)], reads, put, depth)
    elif type(expression) in _COMBINED:
        _put_all(expression.args, _COMBINED[type(expression)], reads, put, depth)
    else:
        raise _NoInstructionError


def _put_all(operands: Any, name: str, reads: Reads, put: Callable[[Instruction], None], depth: int) -> None:
    """Appends the operands, joined by an instruction of two operands, from left to right."""
    if depth > _MOST:
        raise _NoInstructionError
    for position, operand in enumerate(operands):
        _put(operand, reads, put, depth + 1)
        if position > 0:
            put((name, 0, 0))
