"""Floats made of sizes, known only at run time: kernels compute them where they use them, in double precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor.errors import UnsupportedGraph
from inductor.ir.expr import Apply, Const, Expr, IndexValue, apply, cast
from inductor.ir.index import Index, Symbol, size_symbol
from inductor.lowerings.sizes import SMALLEST, Sizes
from inductor.torch_versions import OpOverload, aten

AS_KERNELS = "divides_as_kernels"
"""The key in the ``meta`` of a division in a gradient's formula, which by zero is infinite; others may raise."""
_TAKE_REALS = frozenset(
    (
        aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.add.Scalar, aten.sub.Scalar,
        aten.mul.Scalar, aten.div.Scalar, aten.pow.Tensor_Scalar, aten.maximum.default, aten.minimum.default,
    )
)  # fmt: skip
"""Operators whose second operand may be a float known only at run time."""

_OF_TWO = {"Add": "add", "Mul": "mul", "IntTrueDiv": "div", "FloatTrueDiv": "div", "FloatPow": "pow"}
"""The operators of ``ir/ops`` for the tracer's operators on floats."""


@dataclass(frozen=True, slots=True)
class Real:
    """A float known only at run time, in the place of a Python float; it promotes as one."""

    expr: Expr


def takes_reals(target: OpOverload, operands: Sequence[object]) -> bool:
    """True if the lowering of such a call can deal with the run-time floats among its operands."""
    places = [place for place, operand in enumerate(operands) if isinstance(operand, Real)]
    return not places or (places == [1] and target in _TAKE_REALS)


def float_symbol(value: torch.SymFloat) -> tuple[Symbol, Real]:
    """The symbol of the bits of a float that the graph is given, and the float that they are."""
    symbol = size_symbol(str(value.node.expr), SMALLEST)
    bits = IndexValue(Index.of(symbol), torch.int64)
    return symbol, Real(Apply("bitcast", (bits,), torch.float64))


def real(sizes: Sizes, value: torch.SymFloat) -> Real:
    """The float behind the tracer's; raises ``UnsupportedGraph`` for what is not made of sizes by arithmetic."""
    return Real(_double(sizes, value.node.expr))


def is_positive(sizes: Sizes, divisor: object) -> bool:
    """True for a positive number, and for one that is known to be positive at all sizes."""
    if isinstance(divisor, int | float):
        return divisor > 0
    assert isinstance(divisor, torch.SymInt | torch.SymFloat)
    return _is_positive(sizes, divisor.node.expr, divisor.node.shape_env)


def _is_positive(sizes: Sizes, expr: Any, shape_env: Any) -> bool:
    """True if the expression is known to be positive, by the ranges of its parts or by what the tracer has compared."""
    kind = type(expr).__name__
    if kind == "OpaqueUnaryFn_sqrt" or (kind == "FloatPow" and expr.args[1].is_nonnegative):
        return _is_positive(sizes, expr.args[0], shape_env)
    whole = _whole(expr)
    if whole is None:
        return False
    if (sizes.index(whole) - 1).is_nonnegative():
        return True
    # Imported here, as static sizes need no sympy, which torch imports with it.
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return bool(statically_known_true(shape_env.create_symintnode(whole, hint=None) >= 1))


def _whole(expr: Any) -> Any:
    """The tracer's expression of a whole number that is written as a float, without the conversions; None for any
    other."""
    if expr.is_integer:
        return expr
    if expr.is_Float:
        return int(expr) if float(expr).is_integer() else None
    kind = type(expr).__name__
    parts = [_whole(arg) for arg in expr.args] if kind in ("ToFloat", "Add", "Mul") else [None]
    if any(part is None for part in parts):
        return None
    return parts[0] if kind == "ToFloat" else expr.func(*parts)


def _double(sizes: Sizes, expr: Any) -> Expr:
    """The tracer's expression as an expression in double precision, as Python computes it."""
    if expr.is_number:
        return Const(float(expr), torch.float64)
    if expr.is_integer:
        return cast(IndexValue(sizes.index(expr), torch.int64), torch.float64)
    kind = type(expr).__name__
    if kind == "ToFloat":
        return _double(sizes, expr.args[0])
    if kind in _OF_TWO:
        first, *rest = (_double(sizes, arg) for arg in expr.args)
        for operand in rest:
            first = Apply(_OF_TWO[kind], (first, operand), torch.float64)
        return first
    if kind == "OpaqueUnaryFn_sqrt":
        return apply("sqrt", _double(sizes, expr.args[0]))
    raise UnsupportedGraph(f"a float known only at run time: {expr}")
