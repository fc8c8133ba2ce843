"""numpy's functions on Python numbers, which libraries use as a larger ``math``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from capture.evaluator.builtin_rules.registry import constant_of
from capture.values.base import NotConstant, Tracer, Value
from capture.values.constant import ConstantValue


def numpy_function(ctx: Tracer, function: object, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """A ufunc of numbers is a number; arrays are left to numpy."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    # A ufunc is called directly, or through ``__call__`` with itself as the first operand.
    receiver = function
    operands = list(args)
    if function is numpy.ufunc.__call__:
        receiver, *operands = args
        receiver = getattr(receiver, "obj", None)
    if not isinstance(receiver, numpy.ufunc) or kwargs:
        return None
    try:
        numbers = [constant_of(ctx, operand) for operand in operands]
    except NotConstant:
        return None
    if not all(isinstance(number, (bool, int, float)) for number in numbers):
        return None
    answer = receiver(*numbers)
    return ConstantValue(answer) if isinstance(answer, (float, numpy.integer, numpy.bool_)) else None
