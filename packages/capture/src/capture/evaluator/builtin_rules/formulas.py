"""Floats computed from sizes and dynamic numbers: left to Python, which computes them before the graph.

Floats are not real numbers: ``n * 0.1 + n * 0.2`` is not ``n * (0.1 + 0.2)``, and zero has a sign.  So no such number
is ever an expression that may be put into another order.  What Python computes, in the program's order, is an input
of the graph, a symbol of which nothing is known; a comparison is decided, and guarded, by Python as well.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from capture.evaluator.builtin_rules.registry import fold, rule
from capture.evaluator.world import World
from capture.guards.kinds import GuardKind
from capture.guards.sources import FormulaSource, Inputs, NumberSource, Source
from capture.reasons import Kind
from capture.signals import let_through
from capture.values.base import Tracer, Value
from capture.values.constant import ConstantValue, boolean
from capture.values.scalar import ScalarValue
from capture.values.symint import SymbolicNumber

_SIGNS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.lt: "<", operator.le: "<=", operator.eq: "==", operator.ne: "!=",
    operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
_NEVER_RAISE = frozenset({operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.abs, float})
_LIMIT = 2**63


def is_of_floats(function: object, operands: Sequence[Value]) -> bool:
    """True if an operator has to do with floats, or may have: the quotient of ints is one, and some of their powers."""
    if any(operand.python_type() is float for operand in operands) or function is operator.truediv:
        return True
    return function is operator.pow and not _is_natural(operands[1])


def whole(value: Value) -> Value:
    """The number, with 1 for ``True``, of which sympy knows nothing."""
    truth = isinstance(value, ConstantValue) and isinstance(value.value, bool)
    return ConstantValue(int(value.constant())) if truth else value


def _is_natural(exponent: Value) -> bool:
    """True for a constant exponent that is not negative: such a power of an int is an int."""
    return isinstance(exponent, ConstantValue) and exponent.value >= 0


def computed(ctx: World, function: Callable[..., object], operands: Sequence[Value]) -> Value:
    """A number as Python computes it, in each call."""
    source = _formula(ctx, function, operands)
    result = _outcome(ctx, source, function, operands)
    if type(result) is bool:
        return exactly(ctx, source, result)
    if type(result) not in (int, float):
        known = [ConstantValue(_relied_on(operand)) for operand in operands]
        folded = fold(ctx, function, known, {})
        assert folded is not None
        return folded
    # Numbers that were passed in as floats are tensors in the graph; those of sizes alone are symbols.
    given = any(isinstance(operand, ScalarValue) for operand in operands)  # which is a tensor in the graph
    if not _may_be_symbolic(result) and not (given and isinstance(result, float)):
        return exactly(ctx, source, result)
    if not _never_raises(ctx, function, operands):
        kind = type(result)
        _rely(ctx, _Condition(source, f"{source.expression()} is {_kind(kind)}", kind))
    if given and isinstance(result, float):
        return ScalarValue(float, source=source, now=result)
    # A formula is an input once, however often the program computes it.
    node = ctx.graph.inputs.get(source)
    if node is None:
        ctx.need_symbols()
        node = ctx.graph.add_input(source, ctx.graph.symbolic_number(result, source))
    return SymbolicNumber(node, node.meta["val"], source)


def parts_of(ctx: World, function: Callable[..., object], operands: Sequence[Value], count: int) -> list[Value]:
    """The numbers of which Python makes a tuple."""
    return [computed(ctx, _part(function, place), operands) for place in range(count)]


def _part(function: Callable[..., Any], place: int) -> Callable[..., object]:
    """The function that gives one item of the tuple."""
    return named(f"{_name(function)}[{place}]", lambda *numbers: function(*numbers)[place])


def named(name: str, function: Callable[..., object]) -> Callable[..., object]:
    """A function that formulas are told apart by."""
    function.__qualname__, function.__module__ = name, "builtins"
    return function


def is_known_before(ctx: World, operand: Value) -> bool:
    """True if a number is the program's own, was passed in, or follows from such."""
    if isinstance(operand, ConstantValue):
        return isinstance(operand.value, (int, float, type(None)))
    return isinstance(operand, (SymbolicNumber, ScalarValue)) and _source(ctx, operand) is not None


def compared(ctx: World, function: Callable[..., object], operands: Sequence[Value]) -> Value:
    """Python's answer to a comparison of these numbers, from now on relied on."""
    source = _formula(ctx, function, operands)
    answer = bool(_outcome(ctx, source, function, operands))
    exactly(ctx, source, answer)
    return boolean(answer)


def _outcome(ctx: Tracer, source: Source, function: Callable[..., object], operands: Sequence[Value]) -> Any:
    """The result in this call; an error is raised in the program, and relied on."""
    try:
        return function(*map(_now, operands))
    except Exception as error:  # noqa: BLE001 - whatever it raises for these numbers
        let_through(error)
        _rely(ctx, _Raises(source, f"{source.expression()} raises {error!r}", type(error), error.args))
        return ctx.throw(type(error), *error.args)


def exactly(ctx: Tracer, source: Source, number: float) -> ConstantValue:
    """The number of this call, of this type and sign, from now on relied on."""
    _rely(ctx, _Condition(source, f"{source.expression()} is {number!r}", type(number), repr(number)))
    return ConstantValue(number)


def _rely(ctx: Tracer, condition: _Condition | _Raises) -> None:
    ctx.guard(None, GuardKind.RELATION, (), None, condition, text=condition.text)


@dataclass(frozen=True)
class _Condition:
    """A guard: the formula gives a number of that type which the graph can take, or that one number."""

    source: Source
    text: str
    cls: type
    wanted: str | None = None

    def __call__(self, function: Any, *args: object) -> bool:
        try:
            found = self.source.read(Inputs(function, args))
        except Exception:  # noqa: BLE001 - whatever it raises, the evaluation of this call will meet it
            return False
        if type(found) is not self.cls:
            return False
        if self.wanted is not None:
            return repr(found) == self.wanted
        return isinstance(found, float) or (isinstance(found, int) and abs(found) < _LIMIT)


@dataclass(frozen=True)
class _Raises:
    """A guard: the formula raises just that."""

    source: Source
    text: str
    cls: type[BaseException]
    error_args: tuple[Any, ...]

    def __call__(self, function: Any, *args: object) -> bool:
        try:
            self.source.read(Inputs(function, args))
        except Exception as error:  # noqa: BLE001 - which one is the question
            return type(error) is self.cls and error.args == self.error_args
        return False


def _kind(cls: type) -> str:
    return "a float" if cls is float else "a whole number of 64 bits"


def _may_be_symbolic(number: float) -> bool:
    """True if a symbol can stand for the number.  Torch's know no sign of zero, and neither infinity nor NaN."""
    if isinstance(number, int):
        return abs(number) < _LIMIT
    return number != 0 and math.isfinite(number)


def _never_raises(ctx: Tracer, function: object, operands: Sequence[Value]) -> bool:
    """True if the operator raises for no numbers, so that nothing of that kind has to be guarded."""
    if function in _NEVER_RAISE:
        return True
    if function is not operator.truediv:
        return False
    divisor = operands[1]
    if isinstance(divisor, ConstantValue):
        return True
    return divisor.python_type() is int and divisor.truth(ctx)


def _now(operand: Value) -> object:
    """The number that an operand is in this call; not relied on."""
    if isinstance(operand, ScalarValue):
        return operand.now if operand.function is None else operand.function(*map(_now, operand.operands))
    return operand.example.node.hint if isinstance(operand, SymbolicNumber) else operand.constant()


def _relied_on(operand: Value) -> Any:
    """The number that an operand is in this call, which is relied on."""
    return operand.specialized() if isinstance(operand, SymbolicNumber) else operand.constant()


def _formula(ctx: World, function: Callable[..., object], operands: Sequence[Value]) -> FormulaSource:
    """The source of the result: the function over the sources of its operands."""
    sources = [_source(ctx, operand) for operand in operands]
    found = tuple(source for source in sources if source is not None)
    if len(found) < len(sources):
        ctx.stop(Kind.DATA_DEPENDENT_OPERATION, "a number is read out of a tensor")
    if function in _SIGNS:
        return FormulaSource(function, found, f"({{}} {_SIGNS[function]} {{}})")
    return FormulaSource(function, found, f"{_name(function)}({', '.join('{}' for _ in found)})")


def _name(function: Callable[..., object]) -> str:
    """The function's name in formulas, by which they are told apart: ``math.pow`` is not ``pow``."""
    return f"math.{function.__name__}" if getattr(function, "__module__", "") == "math" else function.__qualname__


def _source(ctx: World, operand: Value) -> Source | None:
    """The source of an operand; None for a number that only the graph can tell."""
    if isinstance(operand, ScalarValue):
        if operand.source is not None or None in operand._given():
            return operand.source
        assert operand.function is not None
        return _formula(ctx, operand.function, operand.operands)
    if isinstance(operand, SymbolicNumber):
        source: Source | None = ctx.graph.source_of(operand.example)
        return source
    return NumberSource(operand.constant())


def _rounding(function: Any) -> None:
    @rule(function, kinds=(SymbolicNumber,))
    def rounded(ctx: World, value: SymbolicNumber, *more: Value) -> Value:
        if not all(is_known_before(ctx, each) for each in more):
            ctx.stop(Kind.CALL, f"a number is rounded as {more[0].describe()} says")
        whole = value.python_type() is int and not more
        return value if whole else computed(ctx, function, [value, *more])


for _function in (math.floor, math.ceil, math.trunc, round, int):
    _rounding(_function)


@rule(float, torch.sym_float, kinds=(SymbolicNumber,))
def symbolic_float(ctx: World, value: SymbolicNumber) -> Value:
    return value if value.python_type() is float else computed(ctx, float, [value])


@rule(operator.index, kinds=(SymbolicNumber,))
def symbolic_index(ctx: Tracer, value: SymbolicNumber) -> Value:
    return value
