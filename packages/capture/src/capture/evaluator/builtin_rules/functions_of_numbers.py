"""Python's functions of dynamic numbers: ``math``, rounding, remainders, methods of floats and ints.

None of them is torch's to compute, whose ``exp`` is not Python's to the last bit: Python computes them before the
graph, as all arithmetic of floats (``formulas``), from numbers that were passed in or follow from those.  What gives
neither numbers nor the answer to a question, such as texts, is left to CPython.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from capture.evaluator.builtin_rules.formulas import compared, computed, is_known_before, named, parts_of
from capture.evaluator.builtin_rules.operators import plain_in_place
from capture.evaluator.world import World
from capture.values.base import Value
from capture.values.scalar import ScalarValue
from capture.values.sequence import TupleValue
from capture.values.symint import SymbolicNumber

_OF_ITERABLES = frozenset({"dist", "fsum", "prod", "sumprod"})
_OF_NUMBERS = frozenset(
    value for name, value in vars(math).items() if callable(value) and name not in _OF_ITERABLES and name[0] != "_"
) | {round, pow, float.is_integer, float.as_integer_ratio, float.conjugate, int.as_integer_ratio, int.bit_count,
     int.bit_length, int.conjugate, getattr(int, "is_integer", int.bit_length)}  # fmt: skip
_OF_FLOATS = frozenset({operator.floordiv, operator.mod, operator.pow})
"""Operators that Python computes for dynamic floats; for whole numbers alone they are arithmetic on sizes."""
_COMPARISONS = frozenset({operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge})
_QUESTIONS = frozenset({math.isclose, math.isfinite, math.isinf, math.isnan, float.is_integer})
_PAIRS = frozenset({math.frexp, math.modf, float.as_integer_ratio, int.as_integer_ratio})


def functions_of_numbers(
    ctx: World, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """The family of Python's functions of dynamic numbers; declines where a number is none of the call's."""
    operands = [*args, *kwargs.values()]
    if not any(isinstance(operand, (SymbolicNumber, ScalarValue)) for operand in operands):
        return None
    if not _is_known(function, args) or not all(is_known_before(ctx, operand) for operand in operands):
        return None
    called = _with_names(_plain(function), tuple(kwargs))
    if function in _QUESTIONS or function in _COMPARISONS:
        return compared(ctx, called, operands)
    if function in _PAIRS:
        return TupleValue(parts_of(ctx, called, operands, 2))
    return computed(ctx, called, operands)


def _is_known(function: object, args: Sequence[Value]) -> bool:
    """True if the function is one of these, or an operator that is Python's to compute for such operands."""
    try:
        known = function in _OF_NUMBERS
    except TypeError:  # it has no hash
        return False
    if known or not isinstance(function, type(operator.add)):
        return known
    if function in _COMPARISONS:
        return len({leaf for arg in args for leaf in _leaves(arg)}) > 1
    return plain_in_place(function) in _OF_FLOATS and any(isinstance(arg, ScalarValue) for arg in args)


def _leaves(operand: Value) -> Iterator[Value]:
    """The numbers that were passed in and that an operand is computed from.

    An answer that hangs on one of them is found by whoever asks for it.
    """
    if isinstance(operand, ScalarValue) and operand.function is not None:
        for each in operand.operands:
            yield from _leaves(each)
    elif isinstance(operand, (ScalarValue, SymbolicNumber)):
        yield operand


def _plain(function: object) -> Any:
    return plain_in_place(function) if isinstance(function, type(operator.add)) else function


def _with_names(function: Callable[..., object], names: Sequence[str]) -> Callable[..., Any]:
    """The function, the last of whose operands have names."""
    if not names:
        return function

    def called(*operands: object) -> Any:
        plain = len(operands) - len(names)
        return function(*operands[:plain], **dict(zip(names, operands[plain:], strict=True)))

    return named(f"{function.__qualname__}[{', '.join(names)}]", called)
