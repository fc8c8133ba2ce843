"""Transposed reads: loads of a tiled kernel that run along the rows while vectors run along the columns.

A square of such reads is loaded row by row and transposed in registers; read lane by lane it would take as many
instructions as it has elements.
"""

from __future__ import annotations

import torch

from inductor.deps import expressions, stores_of
from inductor.ir.expr import Expr, Load, Masked, children
from inductor.ir.index import ONE, Symbol
from inductor.ir.kernel import Kernel


def transposed_loads(kernel: Kernel, row: Symbol, column: Symbol) -> tuple[Load, ...]:
    """The reads with neighbours along ``row`` and a fixed step along ``column``, each once."""
    written = {store.buffer for store in stores_of(kernel.loops)}
    found: dict[Load, None] = {}
    for loop in kernel.loops:
        for statement in loop.body:
            for expr in expressions(statement):
                _collect(expr, row, column, found, set())
    return tuple(load for load in found if load.buffer not in written)


def _collect(expr: Expr, row: Symbol, column: Symbol, found: dict[Load, None], seen: set[int]) -> None:
    """Collects the transposed reads of an expression.  Masked ones are left alone: not all of a square may exist."""
    if id(expr) in seen or isinstance(expr, Masked):
        return
    seen.add(id(expr))
    if isinstance(expr, Load) and _crosses(expr, row, column):
        found[expr] = None
    for child in children(expr):
        _collect(child, row, column, found, seen)


def _crosses(load: Load, row: Symbol, column: Symbol) -> bool:
    """True if neighbours along ``row`` lie side by side, and along ``column`` at a fixed distance."""
    if load.bindings or load.dtype == torch.bool:
        return False
    step = load.index.stride_of(column) if column in load.index.symbols else None
    return step is not None and step != ONE and load.index.stride_of(row) == ONE
