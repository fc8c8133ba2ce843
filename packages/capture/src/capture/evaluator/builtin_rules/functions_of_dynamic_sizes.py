"""Torch's functions of dynamic sizes and numbers that they would take for constants.

What makes a tensor of a length is an operator of ours that takes a symbol for it; other functions are evaluated as
programs over functions that do not mind (``PROGRAMS``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from capture.operators import dynamic_sizes
from capture.reasons import Kind
from capture.values import default_devices
from capture.values.base import NotConstant, Tracer, Value, realize
from capture.values.constant import ConstantValue
from capture.values.scalar import ScalarValue
from capture.values.sequence import SequenceValue, TupleValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue

_NOTHING = {"requires_grad": False, "out": None}
"""Options with the values that they have where they are not given: an operator of ours need not be told them."""


def operator_of_dynamic_sizes(
    ctx: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """The family of functions that make a tensor of a length: our operator's result where the length is a symbol."""
    operator = dynamic_sizes.operator_of(function)
    operands = [*args, *kwargs.values()]
    if operator is None or not any(_has_symbolic_ints(ctx, value) or _has_symbolic_sizes(value) for value in operands):
        return None
    options = {name: value for name, value in kwargs.items() if not _says_nothing(name, value)}
    if any(name in _NOTHING for name in options):
        ctx.stop(Kind.DYNAMIC_SIZE, f"`{function.__name__}` of a length that varies is given more than a graph takes")
    return _of_its_class(function, ctx.record(operator, args, default_devices.placed(ctx, function, options)))


def _of_its_class(function: Any, result: Value) -> Value:
    """The result as torch's function names it: an operator gives a plain tuple."""
    cls = getattr(torch.return_types, function.__name__, None)
    return TupleValue(result.items, cls=cls) if cls is not None and isinstance(result, TupleValue) else result


def _says_nothing(name: str, value: Value) -> bool:
    return name in _NOTHING and isinstance(value, ConstantValue) and value.value is _NOTHING[name]


def as_a_program(ctx: Tracer, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """The family of functions that are evaluated as programs where a size or a number varies."""
    try:
        program, of_numbers = dynamic_sizes.PROGRAMS.get(function), dynamic_sizes.PROGRAMS_OF_NUMBERS.get(function)
    except TypeError:  # it has no hash
        return None
    if program is None and of_numbers is None:
        return None
    operands = [*args, *kwargs.values()]
    has_dynamic_sizes = program is not None and any(map(_has_symbolic_sizes, operands))
    if not has_dynamic_sizes and not any(_has_symbolic_ints(ctx, value) for value in operands):
        return None
    dynamic_sizes.define_all()
    result = ctx.call(ctx.literal(program or of_numbers), args, kwargs)
    return None if _declined(result) else result


def _has_symbolic_ints(ctx: Tracer, value: Value) -> bool:
    """True for a dynamic number, or a sequence with one in it."""
    value = realize(ctx, value)
    if isinstance(value, SequenceValue):
        return any(_has_symbolic_ints(ctx, item) for item in value.items)
    return isinstance(value, SymbolicNumber) or (isinstance(value, ScalarValue) and value.cls is int)


def _has_symbolic_sizes(value: Value) -> bool:
    return isinstance(value, TensorValue) and any(isinstance(size, torch.SymInt) for size in value.fake.shape)


def _declined(result: Value) -> bool:
    try:
        return result.constant() is NotImplemented
    except NotConstant:
        return False
