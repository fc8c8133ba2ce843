"""Formulas as people write them: Python operators on expression trees.

``Value`` wraps one expression so that a lowering reads ``x * sigmoid(x)``.  Numbers take the dtype of the value they
meet.  Nothing is simplified beyond what never changes a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch

from inductor.ir.expr import Const, Expr, Masked, apply, cast, has_checks
from inductor.lowerings.values import number

Number: TypeAlias = "bool | int | float"


@dataclass(frozen=True, slots=True)
class Value:
    """One expression with Python's operators."""

    expr: Expr

    @property
    def dtype(self) -> torch.dtype:
        return self.expr.dtype

    def to(self, dtype: torch.dtype) -> Value:
        # Converted while compiling, so that no kernel casts a constant.
        if isinstance(self.expr, Const) and not dtype.is_complex:
            return Value(number(self.expr.value, dtype))
        return Value(cast(self.expr, dtype))

    def like(self, other: Operand) -> Value:
        """``other`` as an operand beside this one."""
        return other if isinstance(other, Value) else Value(number(other, self.dtype))

    def _with(self, op: str, other: Operand) -> Value:
        return Value(apply(op, self.expr, self.like(other).expr))

    def _after(self, op: str, other: Operand) -> Value:
        return Value(apply(op, self.like(other).expr, self.expr))

    def __add__(self, other: Operand) -> Value:
        return self._with("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._with("sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self if not isinstance(other, Value) and other == 1 else self._with("mul", other)

    def __truediv__(self, other: Operand) -> Value:
        return self._with("div", other)

    def __radd__(self, other: Operand) -> Value:
        return self._after("add", other)

    def __rsub__(self, other: Operand) -> Value:
        return self._after("sub", other)

    def __rmul__(self, other: Operand) -> Value:
        return self * other

    def __rtruediv__(self, other: Operand) -> Value:
        return self._after("div", other)

    def __neg__(self) -> Value:
        return Value(apply("neg", self.expr))

    def __lt__(self, other: Operand) -> Value:
        return self._with("lt", other)

    def __le__(self, other: Operand) -> Value:
        return self._with("le", other)

    def __gt__(self, other: Operand) -> Value:
        return self._with("gt", other)

    def __ge__(self, other: Operand) -> Value:
        return self._with("ge", other)

    def __and__(self, other: Operand) -> Value:
        return self._with("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._with("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._with("xor", other)

    def __invert__(self) -> Value:
        return Value(apply("not", self.expr))


Operand: TypeAlias = "Value | Number"


def call(op: str, *operands: Operand) -> Value:
    """Any operator of the table; at least one operand is a ``Value``."""
    first = next(operand for operand in operands if isinstance(operand, Value))
    return Value(apply(op, *(first.like(operand).expr for operand in operands)))


def equal(left: Value, right: Operand) -> Value:
    """A comparison that is false for NaN."""
    return call("eq", left, right)


def differs(left: Value, right: Operand) -> Value:
    """A comparison that is true for NaN."""
    return call("ne", left, right)


def maximum(left: Operand, right: Operand) -> Value:
    """The larger operand; of two zeros the right one, whatever their signs."""
    return call("maximum", left, right)


def minimum(left: Operand, right: Operand) -> Value:
    """The smaller operand; of two zeros the right one, whatever their signs."""
    return call("minimum", left, right)


def where(condition: Value, then: Operand, other: Operand) -> Value:
    """``then`` where the condition holds, else ``other``."""
    model = then if isinstance(then, Value) else other
    if not isinstance(model, Value):
        raise TypeError("where needs at least one value to take its dtype from")
    if model.dtype == torch.bool and (truths := (_truth(then), _truth(other))) in ((True, False), (False, True)):
        return condition if truths[0] else ~condition
    if isinstance(condition.expr, Const):
        chosen, left = (then, other) if condition.expr.value else (other, then)
        if not has_checks(model.like(left).expr):  # what is left out is checked, too
            return model.like(chosen)
    return Value(apply("where", condition.expr, model.like(then).expr, model.like(other).expr))


def _truth(operand: Operand) -> bool | None:
    """The value of a constant bool."""
    value = operand.expr if isinstance(operand, Value) else Const(bool(operand), torch.bool)
    return bool(value.value) if isinstance(value, Const) else None


def masked(condition: Value, body: Value, other: Number) -> Value:
    """``body`` where the condition holds, else ``other``; nothing of the body is read elsewhere."""
    if isinstance(condition.expr, Const) and condition.expr.value:
        return body
    return Value(Masked(condition.expr, body.expr, number(other, body.dtype), body.dtype))


def isnan(x: Value) -> Value:
    return call("isnan", x)


def exp(x: Value) -> Value:
    return call("exp", x)


def log(x: Value) -> Value:
    return call("log", x)


def log1p(x: Value) -> Value:
    return call("log1p", x)


def sqrt(x: Value) -> Value:
    return call("sqrt", x)


def rsqrt(x: Value) -> Value:
    return call("rsqrt", x)


def tanh(x: Value) -> Value:
    return call("tanh", x)


def erf(x: Value) -> Value:
    return call("erf", x)


def sigmoid(x: Value) -> Value:
    return call("sigmoid", x)


def absolute(x: Value) -> Value:
    return call("abs", x)
